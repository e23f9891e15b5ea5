//! What a scenario expects of its pods. Part of the scenario file's form; compared by [`crate::outcome::expectations`].

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a pod must have come to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// `Running`, `Pending`, `Succeeded` or `Failed`; `Refused` where the API server refuses the manifest.
    #[serde(default)]
    pub phase: Option<String>,
    /// n1, n2 or n3.
    #[serde(default)]
    pub node: Option<String>,
    /// The sets that each container really got, by its name.
    #[serde(default)]
    pub got: BTreeMap<String, ExpectedSets>,
    /// Text that the last FailedScheduling event, the failure message or the API server's refusal contains.
    #[serde(default)]
    pub refusal: Option<String>,
    /// Text that one of our own events on the pod contains.
    #[serde(default)]
    pub event: Option<String>,
}

/// What a container must have got. A field that is not given must be absent in the container too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedSets {
    /// `NEURON_RT_VISIBLE_CORES`.
    #[serde(default)]
    pub cores: Option<String>,
    /// `AWS_NEURON_VISIBLE_DEVICES`.
    #[serde(default)]
    pub devices: Option<String>,
    /// The device nodes, as numbers: `/dev/neuron1` is `1`.
    #[serde(default)]
    pub nodes: Option<String>,
    /// The devices of which a driver answers by ioctl, by their ids on the host.
    #[serde(default)]
    pub ioctls: Option<String>,
    /// The cores that it has reserved, as `0` or `0-3`, or the system's name of the refusal: `EBUSY`.
    #[serde(default)]
    pub reserved: Option<String>,
}
