//! The discovered machine: a topology that stays as it is, and the health of each device, which changes. Made by
//! `discovery`, kept up to date by `monitor`, read by everybody.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::topology::Topology;
use tokio::time::Instant;

use crate::hardware::driver::Driver;
use crate::hardware::health::{DeviceHealth, DeviceWatch, Fault, Unread};

/// A machine whose devices are known.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its devices, cores and candidate sets.
    pub topology: Arc<Topology>,
    /// Links by device id, as the driver shows them; for the node report.
    pub links: Arc<[DeviceSet]>,
    /// The devices that the machine showed when it was discovered.
    pub shown: DeviceSet,
    /// Whether the instance type is in the catalog, which says how many devices there must be.
    pub is_known_type: bool,
    /// The LNC that programs of this type run at unless they are told another, 1 or 2.
    pub default_lnc: u8,
    /// The driver, as it was when the machine was discovered.
    pub driver: Driver,
    /// What looks at each device.
    pub watches: Arc<[DeviceWatch]>,
    /// Why a device may not be given out, by device id.
    pub faults: BTreeMap<u8, Fault>,
    /// What of a device's health could not be read, by device id. Such a device is served.
    pub unknown: BTreeMap<u8, Unread>,
    /// The devices that kubelet is told to be unhealthy. It learns of a loss after the node report, of a recovery before.
    pub withheld: DeviceSet,
    /// When devices became healthy again that kubelet was told to be unhealthy, by device id.
    pub recovered: BTreeMap<u8, Instant>,
}

impl Machine {
    /// The machine with what looks at its devices have found, by device id.
    pub fn with(&self, looks: impl IntoIterator<Item = (u8, DeviceHealth)>) -> Machine {
        let mut machine = self.clone();
        for (device, health) in looks {
            machine.faults.remove(&device);
            machine.unknown.remove(&device);
            match health {
                DeviceHealth::Healthy => {}
                DeviceHealth::Unknown(unread) => drop(machine.unknown.insert(device, unread)),
                DeviceHealth::Unhealthy(fault) => drop(machine.faults.insert(device, fault)),
            }
        }
        machine
    }

    /// What looks at all devices at once find now, by device id.
    pub async fn look(&self) -> Vec<(u8, DeviceHealth)> {
        let look = async |watch: &DeviceWatch| (watch.files.id, watch.clone().look(&self.driver).await);
        join_all(self.watches.iter().map(look)).await
    }

    /// The health of one device.
    pub fn health(&self, device: u8) -> DeviceHealth {
        if let Some(fault) = self.faults.get(&device) {
            return DeviceHealth::Unhealthy(fault.clone());
        }
        self.unknown
            .get(&device)
            .map_or(DeviceHealth::Healthy, |unread| DeviceHealth::Unknown(unread.clone()))
    }

    /// Numbers of devices that are healthy, that are not, and of which it is not known.
    pub fn count_by_health(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for device in self.topology.all_devices().iter() {
            counts[match self.health(device) {
                DeviceHealth::Healthy => 0,
                DeviceHealth::Unhealthy(_) => 1,
                DeviceHealth::Unknown(_) => 2,
            }] += 1;
        }
        counts
    }

    /// The LNC that a container must be told: the node's, where that is not the type's default.
    pub fn told_lnc(&self) -> Option<u8> {
        Some(self.topology.lnc()).filter(|lnc| *lnc != self.default_lnc)
    }

    /// The devices that may not be given out.
    pub fn unhealthy(&self) -> DeviceSet {
        self.faults.keys().copied().collect()
    }

    /// The cores of the devices that may be given out.
    pub fn healthy_cores(&self) -> CoreSet {
        self.topology.all_cores().difference(self.topology.cores_of(self.unhealthy()))
    }
}
