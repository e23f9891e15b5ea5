//! The discovered machine: a topology that stays as it is, and the health of each device, which changes. Made by
//! `discovery`, kept up to date by `monitor`, read by everybody.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use neuron_core::ids::DeviceSet;
use neuron_core::topology::Topology;

use crate::hardware::health;

/// A machine whose devices are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its devices, cores and candidate sets.
    pub topology: Arc<Topology>,
    /// Links by device id, as the driver shows them; for the node report.
    pub links: Vec<DeviceSet>,
    /// Why a device may not be given out, by device id. Healthy devices are absent.
    pub faults: BTreeMap<u8, String>,
}

impl Machine {
    /// Reads the health of every device again.
    pub fn refresh_health(&mut self, root: &Path) {
        let devices = self.topology.all_devices().iter();
        self.faults = devices.filter_map(|id| Some((id, health::fault(root, id)?))).collect();
    }

    /// The devices that may not be given out.
    pub fn unhealthy(&self) -> DeviceSet {
        self.faults.keys().copied().collect()
    }
}
