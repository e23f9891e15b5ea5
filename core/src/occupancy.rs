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
    unhealthy: DeviceSet,
}

impl Occupancy {
    /// Nothing held, everything healthy.
    pub fn empty(topology: Arc<Topology>) -> Self {
        Occupancy { topology, held: CoreSet::EMPTY, unhealthy: DeviceSet::EMPTY }
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
    }

    /// Marks `cores` as no longer held.
    pub fn release(&mut self, cores: CoreSet) {
        self.held = self.held.difference(cores);
    }

    /// Replaces the set of unhealthy devices; devices that the node does not have are left out.
    pub fn set_unhealthy(&mut self, devices: DeviceSet) {
        self.unhealthy = devices.intersection(self.topology.all_devices());
    }

    /// Cores that nobody holds, on healthy devices.
    pub fn free_cores(&self) -> CoreSet {
        self.topology.all_cores().difference(self.held).difference(self.topology.cores_of(self.unhealthy))
    }

    /// Healthy devices of which every core is free.
    pub fn free_devices(&self) -> DeviceSet {
        self.topology.all_devices().difference(self.unhealthy).difference(self.topology.devices_of(self.held))
    }
}
