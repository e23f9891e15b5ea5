//! The candidate sets of one count that are free on one node. Read by the searches and by `fits`.

use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::topology::Topology;

/// One candidate set. Devices are written as all of their cores, so that both names exclude each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct FreeSet {
    pub(super) cores: CoreSet,
    pub(super) devices: DeviceSet,
    /// Whether a core set starts elsewhere than at the first core of a device.
    pub(super) starts_mid_device: bool,
}

/// The free candidate sets of one resource and count, ascending by sorted ids.
#[derive(Clone, Debug)]
pub(super) struct FreeSets {
    pub(super) sets: Vec<FreeSet>,
    /// Logical cores behind one id of the resource.
    pub(super) cores_per_id: u32,
}

impl FreeSet {
    /// The hardware `cores`, given under the name of `resource`.
    pub(super) fn new(topology: &Topology, resource: Resource, cores: CoreSet) -> FreeSet {
        let cores_per_device = topology.cores_per_device();
        let mid_device = cores.first().is_some_and(|first| !first.is_multiple_of(cores_per_device));
        FreeSet {
            cores,
            devices: topology.devices_of(cores),
            starts_mid_device: resource == Resource::Core && mid_device,
        }
    }
}

impl FreeSets {
    /// The candidate sets that lie in `within`.
    pub(super) fn new(topology: &Topology, resource: Resource, count: u32, within: CoreSet) -> FreeSets {
        let inside = |cores: &CoreSet| cores.is_subset(within);
        let free_set = |cores| FreeSet::new(topology, resource, cores);
        match resource {
            Resource::Device => {
                let all = topology.device_sets(count);
                let mut sets = Vec::with_capacity(all.len());
                sets.extend(all.iter().map(|set| topology.cores_of(*set)).filter(inside).map(free_set));
                FreeSets { sets, cores_per_id: u32::from(topology.cores_per_device()) }
            }
            Resource::Core => {
                let all = topology.core_sets(count);
                let mut sets = Vec::with_capacity(all.len());
                sets.extend(all.iter().copied().filter(inside).map(free_set));
                FreeSets { sets, cores_per_id: 1 }
            }
        }
    }
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
