//! Which cores of one node are held and which devices are healthy. One set of cores answers for cores and for
//! devices, so that the two cannot contradict. Filled by [`crate::holders`], read by [`crate::placement`].

use std::sync::Arc;

use crate::ids::{CoreSet, DeviceSet};
use crate::topology::Topology;

/// One node's held cores and unhealthy devices.
#[derive(Clone, Debug)]
pub struct Occupancy {
    topology: Arc<Topology>,
    held: CoreSet,
    /// The devices of `held`, kept because filter reads what is free far more often than something changes.
    held_devices: DeviceSet,
    unhealthy: DeviceSet,
    /// The cores of `unhealthy`.
    unhealthy_cores: CoreSet,
}

impl Occupancy {
    /// Nothing held, everything healthy.
    pub fn empty(topology: Arc<Topology>) -> Self {
        Occupancy {
            topology,
            held: CoreSet::EMPTY,
            held_devices: DeviceSet::EMPTY,
            unhealthy: DeviceSet::EMPTY,
            unhealthy_cores: CoreSet::EMPTY,
        }
    }

    /// The node's devices, cores and candidate sets.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Logical cores that pods hold, under either name.
    pub fn held(&self) -> CoreSet {
        self.held
    }

    /// Devices that may not be given to new pods.
    pub fn unhealthy(&self) -> DeviceSet {
        self.unhealthy
    }

    /// Marks `cores` as held; cores that the node does not have are left out.
    pub fn hold(&mut self, cores: CoreSet) {
        self.held = self.held.union(cores.intersection(self.topology.all_cores()));
        self.held_devices = self.held_devices.union(self.topology.devices_of(cores));
    }

    /// Marks `cores` as no longer held.
    pub fn release(&mut self, cores: CoreSet) {
        self.held = self.held.difference(cores);
        self.held_devices = self.topology.devices_of(self.held);
    }

    /// Replaces the set of unhealthy devices; devices that the node does not have are left out.
    pub fn set_unhealthy(&mut self, devices: DeviceSet) {
        self.unhealthy = devices.intersection(self.topology.all_devices());
        self.unhealthy_cores = self.topology.cores_of(self.unhealthy);
    }

    /// Logical cores that no pod holds, on healthy devices.
    pub fn free_cores(&self) -> CoreSet {
        self.topology.all_cores().difference(self.held).difference(self.unhealthy_cores)
    }

    /// Healthy devices of which no pod holds a core.
    pub fn free_devices(&self) -> DeviceSet {
        self.topology.all_devices().difference(self.unhealthy).difference(self.held_devices)
    }

    /// Number of devices of the largest candidate set that is free; 0 if none is.
    pub fn largest_free_set(&self) -> u8 {
        let free = self.free_devices();
        let is_free =
            |count: &&u8| self.topology.device_sets(u32::from(**count)).iter().any(|set| set.is_subset(free));
        self.topology.device_counts().iter().rev().find(is_free).copied().unwrap_or_default()
    }
}
