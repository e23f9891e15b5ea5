//! The allowed sets of one count that are free on one node, as hardware. Read by the searches.

use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::topology::Topology;

/// One allowed set. Devices are written as all of their cores, so that both names exclude each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) cores: CoreSet,
    pub(super) devices: DeviceSet,
    /// Whether a core set starts elsewhere than at the first core of a device.
    pub(super) starts_mid_device: bool,
}

/// Allowed sets of one resource and count, ascending by sorted ids.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    pub(super) sets: Vec<Candidate>,
    /// Cores behind one id of the resource.
    pub(super) width: u32,
}

impl Candidate {
    /// The hardware `cores`, given under the name of `resource`.
    pub(super) fn new(topology: &Topology, resource: Resource, cores: CoreSet) -> Candidate {
        let width = topology.cores_per_device();
        let mid_device = cores.first().is_some_and(|first| !first.is_multiple_of(width));
        Candidate {
            cores,
            devices: topology.devices_of(cores),
            starts_mid_device: resource == Resource::Core && mid_device,
        }
    }
}

impl Candidates {
    /// The allowed sets that lie in `within`.
    pub(super) fn new(topology: &Topology, resource: Resource, count: u32, within: CoreSet) -> Candidates {
        let inside = |cores: &CoreSet| cores.is_subset(within);
        let candidate = |cores| Candidate::new(topology, resource, cores);
        let sets = match resource {
            Resource::Device => {
                let sets = topology.device_sets(count).iter().map(|set| topology.cores_of(*set));
                sets.filter(inside).map(candidate).collect()
            }
            Resource::Core => {
                topology.core_sets(count).iter().copied().filter(inside).map(candidate).collect()
            }
        };
        Candidates { sets, width: width_of(topology, resource) }
    }
}

/// Logical cores behind one id of the resource.
pub(super) fn width_of(topology: &Topology, resource: Resource) -> u32 {
    match resource {
        Resource::Device => u32::from(topology.cores_per_device()),
        Resource::Core => 1,
    }
}

/// Whether any allowed set of `count` is free; allocates nothing.
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
