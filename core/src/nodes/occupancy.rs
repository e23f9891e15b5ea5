//! What is held on one node: logical cores as a bit set that answers for cores and for devices alike,
//! so that the two views cannot contradict. Filled by [`crate::holders`], read by `placement`.

use std::sync::Arc;

use crate::ids::{CoreSet, DeviceSet};
use crate::topology::Topology;

/// One node's held cores and unhealthy devices.
#[derive(Clone, Debug)]
pub struct Occupancy {
    topology: Arc<Topology>,
    held: CoreSet,
    /// The devices of `held`: filter asks every node what is free, far more often than something changes.
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

    /// The node's shape.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Cores that pods hold, under either name.
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

    /// Cores that nobody holds, on healthy devices.
    pub fn free_cores(&self) -> CoreSet {
        self.topology.all_cores().difference(self.held).difference(self.unhealthy_cores)
    }

    /// Healthy devices of which every core is free.
    pub fn free_devices(&self) -> DeviceSet {
        self.topology.all_devices().difference(self.unhealthy).difference(self.held_devices)
    }
}
