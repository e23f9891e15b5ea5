//! The candidate sets of one count that are free on one node. Read by the searches and by `fits`.

use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::topology::Topology;

/// One candidate set. Devices are written as all of their cores, so that both names exclude each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeSet {
    /// Logical cores of the set; of devices all of theirs.
    pub(super) cores: CoreSet,
    /// Devices that it lies on.
    pub(super) devices: DeviceSet,
    /// Whether a core set starts elsewhere than at the first core of a device.
    pub(super) starts_mid_device: bool,
}

/// The free candidate sets of one resource and count, ascending by sorted ids.
#[derive(Clone, Debug)]
pub(super) struct FreeSets {
    /// Ascending by sorted ids.
    pub(super) sets: Vec<FreeSet>,
    /// Logical cores behind one id of the resource.
    pub(super) cores_per_id: u32,
}

impl FreeSet {
    /// The hardware `cores`, given under the name of `resource`.
    pub(super) fn new(topology: &Topology, resource: Resource, cores: CoreSet) -> FreeSet {
        match resource {
            Resource::Device => FreeSet::of_devices(topology, topology.devices_of(cores)),
            Resource::Core => FreeSet::of_cores(topology, cores),
        }
    }

    fn of_devices(topology: &Topology, devices: DeviceSet) -> FreeSet {
        FreeSet { cores: topology.cores_of(devices), devices, starts_mid_device: false }
    }

    fn of_cores(topology: &Topology, cores: CoreSet) -> FreeSet {
        let cores_per_device = topology.cores_per_device();
        let starts_mid_device = cores.first().is_some_and(|first| !first.is_multiple_of(cores_per_device));
        FreeSet { cores, devices: topology.devices_of(cores), starts_mid_device }
    }
}

impl FreeSets {
    /// The candidate sets that lie in `within`.
    pub(super) fn new(topology: &Topology, resource: Resource, count: u32, within: CoreSet) -> FreeSets {
        let mut sets = Vec::with_capacity(candidates(topology, resource, count));
        sets.extend(free_sets(topology, resource, count, within));
        FreeSets { sets, cores_per_id: cores_per_id(topology, resource) }
    }
}

/// Logical cores behind one id of the resource.
pub(super) fn cores_per_id(topology: &Topology, resource: Resource) -> u32 {
    match resource {
        Resource::Device => u32::from(topology.cores_per_device()),
        Resource::Core => 1,
    }
}

/// How many candidate sets a count has, free or not.
pub(super) fn candidates(topology: &Topology, resource: Resource, count: u32) -> usize {
    match resource {
        Resource::Device => topology.device_sets(count).len(),
        Resource::Core => topology.core_sets(count).len(),
    }
}

/// The candidate sets of a count that lie in `within`, ascending by sorted ids.
pub(super) fn free_sets(
    topology: &Topology,
    resource: Resource,
    count: u32,
    within: CoreSet,
) -> impl Iterator<Item = FreeSet> {
    let (of_devices, of_cores): (&[DeviceSet], &[CoreSet]) = match resource {
        Resource::Device => (topology.device_sets(count), &[]),
        Resource::Core => (&[], topology.core_sets(count)),
    };
    let devices = if of_devices.is_empty() { DeviceSet::EMPTY } else { whole_devices(topology, within) };
    let of_devices = of_devices.iter().filter(move |set| set.is_subset(devices));
    let of_cores = of_cores.iter().filter(move |set| set.is_subset(within));
    let of_devices = of_devices.map(|set| FreeSet::of_devices(topology, *set));
    of_devices.chain(of_cores.map(|set| FreeSet::of_cores(topology, *set)))
}

/// The devices all of whose cores are among these.
fn whole_devices(topology: &Topology, cores: CoreSet) -> DeviceSet {
    let devices = topology.all_devices();
    devices.iter().filter(|device| topology.cores_of(DeviceSet::single(*device)).is_subset(cores)).collect()
}

/// Whether any candidate set of `count` is free; allocates nothing.
pub(super) fn any_free(occupancy: &Occupancy, resource: Resource, count: u32) -> bool {
    let topology = occupancy.topology();
    match resource {
        Resource::Device => {
            let free = occupancy.free_devices();
            topology.device_sets(count).iter().any(|set| set.is_subset(free))
        }
        Resource::Core => {
            let free = occupancy.free_cores();
            topology.core_sets(count).iter().any(|set| set.is_subset(free))
        }
    }
}
