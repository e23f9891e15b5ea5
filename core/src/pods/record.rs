//! The allocation record on a pod: the annotations of docs/architecture.md §3, to and from an [`Allocation`].
//! Written by the extender at bind, read by [`crate::holders`] and the device plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use litemap::LiteMap;
use serde::{Deserialize, Serialize};

use crate::ids::{CoreSet, DeviceSet, IdError, MAX_CORES};
use crate::names::{
    ALLOCATION, AWS_NEURON_IDS, NEURON, NEURON_ALLOC_TIME, NEURON_ALLOCATED, NEURON_CORES, NEURON_DEVS,
    NEURON_RESOURCE_TYPE, NEURONCORE, Resource,
};
use crate::request::PodRequest;
use crate::topology::Topology;

/// What one container was given under either name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerAllocation {
    /// Device ids; empty if the container requests no devices.
    #[serde(default, skip_serializing_if = "no_devices")]
    pub devices: DeviceSet,
    /// Logical core ids in host numbering; empty if the container requests no cores.
    #[serde(default, skip_serializing_if = "no_cores")]
    pub cores: CoreSet,
}

/// What containers were given, by name. A sorted list: the extender keeps one for each pod with devices, most have a single container, and
/// the smallest BTreeMap takes the room of eleven.
pub type Containers = LiteMap<Arc<str>, ContainerAllocation>;

/// What a pod was given on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The node's name.
    pub node: Arc<str>,
    /// The node's LNC when the ids were chosen, 1 or 2.
    pub lnc: u8,
    /// Ids by container name; init containers and sidecars too.
    pub containers: Containers,
}

/// A record as it stands on a pod; whether it counts is another question ([`crate::holders::record_counts`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Written by this project; shared with [`crate::holders::Holding`], so that it is in memory once.
    Ours(Arc<Allocation>),
    /// Written by AWS' extension, which names no containers.
    Aws {
        /// Whether the ids are devices or cores, where the pod says so.
        resource: Option<Resource>,
        /// Device or core ids, 0 to 127. Boxed: nearly all records are the others.
        ids: Box<BTreeSet<u8>>,
    },
}

/// An annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} cannot be read: {problem}")]
pub struct RecordError {
    /// The annotation's key, such as `neuron-scheduler/allocation`.
    pub key: &'static str,
    /// What is wrong with its value; cut where it quotes much of it.
    pub problem: String,
}

/// The most bytes that a value of this pod annotation may have to be read: 64 KiB for this project's record, 1 KiB
/// for the others. Whoever may write a pod's annotations must not fill others' memory. The largest record that
/// placement can make, every core of the largest node for each of [`crate::placement::MAX_CONTAINERS`] containers, is
/// shorter; so is the longest list of ids.
pub fn max_value_bytes(key: &str) -> usize {
    if key == ALLOCATION { 64 << 10 } else { 1 << 10 }
}

/// The longest name of a container, in bytes (DNS label, RFC 1123).
const MAX_NAME_BYTES: usize = 63;

/// What is longer of a text about a value that cannot be read is cut.
const MAX_PROBLEM_BYTES: usize = 200;

impl RecordError {
    fn new(key: &'static str, mut problem: String) -> Self {
        if problem.len() > MAX_PROBLEM_BYTES {
            problem.truncate(problem.floor_char_boundary(MAX_PROBLEM_BYTES));
            problem.push_str("...");
        }
        Self { key, problem }
    }
}

/// The value of the annotation `neuron-scheduler/allocation`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    v: u32,
    node: String,
    lnc: u8,
    containers: BTreeMap<String, ContainerAllocation>,
}

const VERSION: u32 = 1;

impl Allocation {
    /// The pod's annotations: every key of docs/architecture.md §3. `allocated` is whether kubelet has given the ids
    /// to the containers; `alloc_time_nanos` is the time of the bind in nanoseconds since 1970.
    pub fn annotations(&self, allocated: bool, alloc_time_nanos: &str) -> BTreeMap<String, String> {
        let Allocation { node, lnc, containers } = self.clone();
        let containers = containers.into_iter().map(|(name, given)| (name.to_string(), given)).collect();
        let wire = Wire { v: VERSION, node: node.to_string(), lnc, containers };
        // Text, numbers and a map with text keys: JSON can hold them, so this cannot fail.
        let record = serde_json::to_string(&wire).unwrap_or_default();
        let mut annotations = BTreeMap::from([(ALLOCATION.to_owned(), record)]);
        let mut add = |key: &str, value: &str| annotations.insert(key.to_owned(), value.to_owned());
        let (devices, cores) = (self.union_devices(), self.union_cores());
        if !devices.is_empty() {
            add(NEURON_DEVS, &devices.to_string());
        }
        if !cores.is_empty() {
            add(NEURON_CORES, &cores.to_string());
        }
        // AWS' keys can say the ids of one resource only, so a pod with both carries none of them.
        let one = match (devices.is_empty(), cores.is_empty()) {
            (false, true) => Some((Resource::Device, devices.to_string())),
            (true, false) => Some((Resource::Core, cores.to_string())),
            _ => None,
        };
        if let Some((resource, ids)) = one {
            add(AWS_NEURON_IDS, &ids);
            add(NEURON_ALLOCATED, if allocated { "true" } else { "false" });
            add(NEURON_ALLOC_TIME, alloc_time_nanos);
            add(NEURON_RESOURCE_TYPE, resource.name());
        }
        annotations
    }

    /// Reads a pod's annotations; `None` if it has no record. This project's key decides alone where it
    /// stands; AWS' keys are read only without it. Ids may stand in any order, each once.
    ///
    /// # Errors
    /// [`RecordError`] names the annotation that cannot be read, and why.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Result<Option<Recorded>, RecordError> {
        let read = |key| match annotations.get(key) {
            Some(text) if text.len() > max_value_bytes(key) => {
                Err(RecordError::new(key, format!("it is longer than {} bytes", max_value_bytes(key))))
            }
            text => Ok(text),
        };
        if let Some(text) = read(ALLOCATION)? {
            return ours(text).map(|allocation| Some(Recorded::Ours(Arc::new(allocation))));
        }
        let Some(ids) = read(AWS_NEURON_IDS)? else { return Ok(None) };
        let resource = annotations.get(NEURON_RESOURCE_TYPE).map(|name| {
            Resource::named(name).ok_or_else(|| {
                let problem = format!("{name:?} is neither {NEURON} nor {NEURONCORE}");
                RecordError::new(NEURON_RESOURCE_TYPE, problem)
            })
        });
        let wrong = |problem| RecordError::new(AWS_NEURON_IDS, problem);
        let ids: CoreSet = ids.parse().map_err(|error: IdError| wrong(error.to_string()))?;
        if ids.is_empty() {
            return Err(wrong("it names no id".to_owned()));
        }
        Ok(Some(Recorded::Aws { resource: resource.transpose()?, ids: Box::new(ids.iter().collect()) }))
    }

    /// Every device that a container was given as a device.
    pub fn union_devices(&self) -> DeviceSet {
        self.containers.values().fold(DeviceSet::EMPTY, |union, container| union.union(container.devices))
    }

    /// Every core that a container was given as a core.
    pub fn union_cores(&self) -> CoreSet {
        self.containers.values().fold(CoreSet::EMPTY, |union, container| union.union(container.cores))
    }

    /// Every core that the pod takes under either name.
    pub fn hardware(&self, topology: &Topology) -> CoreSet {
        self.union_cores().union(topology.cores_of(self.union_devices()))
    }
}

/// The list, which takes no more room than it needs.
fn list(containers: impl ExactSizeIterator<Item = (Arc<str>, ContainerAllocation)>) -> Containers {
    let mut list = Containers::with_capacity(containers.len());
    list.extend(containers);
    list
}

impl Recorded {
    /// Has a record of this project share the names of containers with the pod's request, so that each is in memory once.
    pub fn sharing_names(self, request: &PodRequest) -> Self {
        let Recorded::Ours(allocation) = self else { return self };
        let mut allocation = Arc::unwrap_or_clone(allocation);
        let names: BTreeSet<&Arc<str>> = request.containers.iter().map(|container| &container.name).collect();
        let shared = |name: Arc<str>| names.get(&name).map(|name| Arc::clone(name)).unwrap_or(name);
        let containers = std::mem::take(&mut allocation.containers).into_iter();
        allocation.containers = list(containers.map(|(name, given)| (shared(name), given)));
        Recorded::Ours(Arc::new(allocation))
    }
}

impl ContainerAllocation {
    /// Every core that the container takes under either name.
    pub fn hardware(&self, topology: &Topology) -> CoreSet {
        self.cores.union(topology.cores_of(self.devices))
    }
}

fn ours(text: &str) -> Result<Allocation, RecordError> {
    let wrong = |problem| RecordError::new(ALLOCATION, problem);
    let json = |error: serde_json::Error| wrong(error.to_string());
    let value: serde_json::Value = serde_json::from_str(text).map_err(json)?;
    // serde would take a list for an object, and with it a version that is not looked at.
    if !value.is_object() {
        return Err(wrong("it is not a JSON object".to_owned()));
    }
    // The version is read first, so that a newer record fails for its version and not for a new field.
    if let Some(v) = value.get("v").and_then(serde_json::Value::as_u64)
        && v != u64::from(VERSION)
    {
        return Err(wrong(format!("it has version {v}, this program reads version {VERSION}")));
    }
    let Wire { node, lnc, containers, .. } = serde_json::from_value(value).map_err(json)?;
    // What is made of short names takes four times the text, and a long one belongs to no container.
    if let Some(name) = containers.keys().find(|name| name.len() > MAX_NAME_BYTES) {
        return Err(wrong(format!("{name:?} is longer than a container's name")));
    }
    // As many as placement takes (MAX_CONTAINERS).
    if containers.len() > MAX_CORES {
        let count = containers.len();
        return Err(wrong(format!(
            "it names {count} containers, and at most {MAX_CORES} can have devices or cores"
        )));
    }
    if let Some((name, _)) = containers.iter().find(|(_, given)| **given == ContainerAllocation::default()) {
        return Err(wrong(format!("container {name} has neither devices nor cores")));
    }
    let containers = list(containers.into_iter().map(|(name, given)| (name.into(), given)));
    Ok(Allocation { node: node.into(), lnc, containers })
}

// serde hands over a reference where the sets are copied.
fn no_devices(devices: &DeviceSet) -> bool {
    devices.is_empty()
}

fn no_cores(cores: &CoreSet) -> bool {
    cores.is_empty()
}
