//! The allocation record on a pod: the annotations of docs/architecture.md, to and from an [`Allocation`].
//! Written by the extender at bind, read by [`crate::holders`] and the device plugin.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;
use crate::topology::Topology;

/// What one container was given under either name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerAllocation {
    /// Devices, if it asked for devices.
    #[serde(default, skip_serializing_if = "no_devices")]
    pub devices: DeviceSet,
    /// Logical cores in host numbering, if it asked for cores.
    #[serde(default, skip_serializing_if = "no_cores")]
    pub cores: CoreSet,
}

/// What a pod was given on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The node.
    pub node: String,
    /// The node's logical core size when the ids were chosen.
    pub lnc: u8,
    /// By container name; init containers and sidecars too.
    pub containers: BTreeMap<String, ContainerAllocation>,
}

/// A record as found on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Written by this project.
    Ours(Allocation),
    /// Written by AWS' extension.
    Aws {
        /// What the ids count, where the pod says so.
        resource: Option<Resource>,
        /// The ids.
        ids: BTreeSet<u8>,
    },
}

/// An annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} cannot be read: {problem}")]
pub struct RecordError {
    /// The annotation's key.
    pub key: &'static str,
    /// What is wrong with its value.
    pub problem: String,
}

#[allow(clippy::todo)]
impl Allocation {
    /// The annotations of the pod: every key of docs/architecture.md. `allocated` is whether kubelet has
    /// handed the devices out; `alloc_time_nanos` is the time of the bind in nanoseconds since 1970.
    pub fn annotations(&self, _allocated: bool, _alloc_time_nanos: &str) -> BTreeMap<String, String> {
        todo!()
    }

    /// Reads a pod's annotations; `None` if it has no record.
    pub fn parse(_annotations: &BTreeMap<String, String>) -> Result<Option<Recorded>, RecordError> {
        todo!()
    }

    /// Every core that it takes under either name.
    pub fn hardware(&self, _topology: &Topology) -> CoreSet {
        todo!()
    }
}

// serde hands over a reference where the sets are copied.
fn no_devices(devices: &DeviceSet) -> bool {
    devices.is_empty()
}

fn no_cores(cores: &CoreSet) -> bool {
    cores.is_empty()
}
