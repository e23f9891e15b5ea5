//! The resources advertised to kubelet, and what their ids mean. A set of ids is kept as the logical cores it takes, so
//! that both resource names speak of the same hardware. Used wherever ids come from kubelet or go to it.

use neuron_core::ids::{CoreSet, DeviceSet, KubeletId};
use neuron_core::names::{NEURON, NEURONCORE, NEURONDEVICE, Resource};
use neuron_core::topology::Topology;

/// One extended resource, and how its files are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedResource {
    /// The name that pods ask by, such as `aws.amazon.com/neuron`.
    pub name: &'static str,
    /// What the names of its sockets and its lock file in kubelet's plugin folder begin with.
    pub files: &'static str,
    /// What one id stands for.
    pub unit: Resource,
}

/// Every resource of this plugin; `legacy` adds the old name of devices.
pub fn advertised(legacy: bool) -> Vec<AdvertisedResource> {
    let mut resources = vec![
        AdvertisedResource { name: NEURON, files: "neuron-devplugin", unit: Resource::Device },
        AdvertisedResource { name: NEURONCORE, files: "neuroncore-devplugin", unit: Resource::Core },
    ];
    if legacy {
        let files = "neurondevice-devplugin";
        resources.push(AdvertisedResource { name: NEURONDEVICE, files, unit: Resource::Device });
    }
    resources
}

/// What one id of the resource `name` stands for; none for a resource of another plugin.
pub fn unit_of(name: &str) -> Option<Resource> {
    advertised(true).into_iter().find(|resource| resource.name == name).map(|resource| resource.unit)
}

/// An id that this node never advertised for the resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id:?} is not an id of {resource} on this node; it advertises {advertised}")]
pub struct UnknownId {
    id: String,
    resource: &'static str,
    advertised: String,
}

/// The logical cores that `ids` take.
///
/// # Errors
/// The first id that this node does not advertise under that resource.
pub fn cores_of(topology: &Topology, unit: Resource, ids: &[String]) -> Result<CoreSet, UnknownId> {
    ids.iter().try_fold(CoreSet::EMPTY, |all, id| match (id.parse(), unit) {
        (Ok(KubeletId::Device(device)), Resource::Device) if device < topology.devices() => {
            Ok(all.union(topology.cores_of(DeviceSet::single(device))))
        }
        (Ok(KubeletId::Core(core)), Resource::Core) if core < topology.cores() => {
            Ok(all.union(CoreSet::single(core)))
        }
        _ => Err(UnknownId {
            id: id.clone(),
            resource: unit.name(),
            advertised: match ids_of(topology, unit, topology.all_cores()).as_slice() {
                [first, .., last] => format!("{first} to {last}"),
                all => all.concat(),
            },
        }),
    })
}

/// As [`cores_of`], without the ids that this node does not advertise.
pub fn known_cores(topology: &Topology, unit: Resource, ids: &[String]) -> CoreSet {
    let known = ids.iter().filter_map(|id| cores_of(topology, unit, std::slice::from_ref(id)).ok());
    known.fold(CoreSet::EMPTY, CoreSet::union)
}

/// The ids that stand for any of `cores`, ascending.
pub fn ids_of(topology: &Topology, unit: Resource, cores: CoreSet) -> Vec<String> {
    ids_with_cores(topology, unit, cores).map(|(id, _)| id.to_string()).collect()
}

/// The ids that stand for any of `cores`, ascending, each with all the cores that it stands for.
pub fn ids_with_cores(
    topology: &Topology,
    unit: Resource,
    cores: CoreSet,
) -> impl Iterator<Item = (KubeletId, CoreSet)> {
    let numbers: Vec<u8> = match unit {
        Resource::Device => topology.devices_of(cores).iter().collect(),
        Resource::Core => cores.iter().collect(),
    };
    numbers.into_iter().map(move |number| match unit {
        Resource::Device => (KubeletId::Device(number), topology.cores_of(DeviceSet::single(number))),
        Resource::Core => (KubeletId::Core(number), CoreSet::single(number)),
    })
}

/// The number of ids that [`ids_of`] gives.
pub fn count_of(topology: &Topology, unit: Resource, cores: CoreSet) -> u32 {
    match unit {
        Resource::Device => topology.devices_of(cores).len(),
        Resource::Core => cores.len(),
    }
}
