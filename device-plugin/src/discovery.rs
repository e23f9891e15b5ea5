//! What this machine is: instance type, LNC, shape and the health of every device. `run` looks again and again; the
//! first look that succeeds fixes the shape, so that an id once advertised never vanishes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::ids::DeviceSet;
use neuron_core::report::{DeviceReport, Health, HolderReport, NodeReport, REPORT_VERSION};
use neuron_core::topology::{Policy, Topology, TopologyError};

use crate::health;
use crate::sysfs::{self, FileError, SysfsDevice};

/// A machine whose devices are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Its shape.
    pub topology: Arc<Topology>,
    /// Links as the driver shows them; the report tells them to the extender.
    pub links: Vec<DeviceSet>,
    /// Why a device may not be given out, by device id; healthy devices are not in it.
    pub faults: BTreeMap<u8, String>,
}

/// How a machine is to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Discovery<'a> {
    /// Where `/dev`, `/sys` and `/opt` stand.
    pub root: &'a Path,
    /// The known types.
    pub catalog: &'a Catalog,
    /// Which sets the shape allows.
    pub policy: Policy,
    /// The type, if DMI is not to be asked.
    pub instance_type: Option<&'a str>,
}

/// Why there is nothing to advertise yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// A file is missing or mangled.
    #[error(transparent)]
    File(#[from] FileError),
    /// The driver shows no device.
    #[error("no neuronN folder in {}; is the Neuron driver loaded?", path.display())]
    NoDevices {
        /// Where they were looked for.
        path: PathBuf,
    },
    /// The driver shows devices that the type does not have.
    #[error(
        "{} has devices {found}, but instance type {instance_type} has {expected}; set --instance-type to what this machine is",
        path.display()
    )]
    TooMany {
        /// Where they were found.
        path: PathBuf,
        /// Their ids.
        found: DeviceSet,
        /// The type.
        instance_type: String,
        /// How many devices the type has.
        expected: u8,
    },
    /// The driver shows another number of cores than the type has.
    #[error(
        "{} holds {found}, but a device of instance type {instance_type} has {expected} cores; set --instance-type to what this machine is",
        path.display()
    )]
    Cores {
        /// The file.
        path: PathBuf,
        /// Physical cores that the driver shows.
        found: u8,
        /// The type.
        instance_type: String,
        /// Physical cores that the type has.
        expected: u8,
    },
    /// The type cannot be what the machine says.
    #[error(transparent)]
    Shape(#[from] TopologyError),
}

impl Discovery<'_> {
    /// Looks at a machine for the first time. `kept` is the type and the LNC, 1 or 2, at which pods hold cores since
    /// before this plugin started; it counts before the machine's own configuration.
    ///
    /// # Errors
    /// Anything without which no device can be advertised. One bad device among good ones is not: it is unhealthy.
    pub fn look(&self, kept: Option<&(String, u8)>) -> Result<Machine, DiscoveryError> {
        let instance_type = match self.instance_type {
            Some(name) => name.to_owned(),
            None => sysfs::product_name(self.root)?,
        };
        let known = self.catalog.find(&instance_type);
        let path = self.root.join(sysfs::DEVICES);
        let ids = match sysfs::device_ids(self.root) {
            Ok(ids) if ids.is_empty() => return Err(DiscoveryError::NoDevices { path }),
            Ok(ids) => ids,
            Err(FileError::Unreadable { .. }) if !path.exists() => {
                return Err(DiscoveryError::NoDevices { path });
            }
            Err(error) => return Err(error.into()),
        };
        let mut devices = BTreeMap::new();
        let mut first_error = None;
        for id in ids.iter() {
            match sysfs::device(self.root, id) {
                Ok(device) => {
                    devices.insert(id, device);
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if let (true, Some(error)) = (devices.is_empty(), first_error) {
            return Err(error.into());
        }
        let configured = sysfs::lnc(self.root)?;
        let kept = kept.filter(|(held, _)| *held == instance_type).map(|(_, lnc)| *lnc);
        let lnc = kept.or(configured);
        let topology = match known {
            Some(known) => {
                self.check(&instance_type, known, ids, &devices)?;
                Topology::named(&instance_type, known, lnc.unwrap_or(known.default_lnc), self.policy)?
            }
            None => {
                let lnc = lnc.unwrap_or_else(|| self.usual_lnc(ids));
                Topology::of_report(&describe(&instance_type, lnc, ids, &devices))?
            }
        };
        let links = topology.all_devices().iter();
        let links = links.map(|id| devices.get(&id).map(|device| device.links).unwrap_or_default()).collect();
        let mut machine = Machine { topology: Arc::new(topology), links, faults: BTreeMap::new() };
        machine.look_again(self.root);
        Ok(machine)
    }

    fn check(
        &self,
        instance_type: &str,
        known: &InstanceType,
        ids: DeviceSet,
        devices: &BTreeMap<u8, SysfsDevice>,
    ) -> Result<(), DiscoveryError> {
        if !ids.is_subset(DeviceSet::run(0, known.devices)) {
            return Err(DiscoveryError::TooMany {
                path: self.root.join(sysfs::DEVICES),
                found: ids,
                instance_type: instance_type.to_owned(),
                expected: known.devices,
            });
        }
        match devices.iter().find(|(_, device)| device.cores != known.cores_per_device) {
            None => Ok(()),
            Some((id, device)) => Err(DiscoveryError::Cores {
                path: sysfs::device_folder(self.root, *id).join("core_count"),
                found: device.cores,
                instance_type: instance_type.to_owned(),
                expected: known.cores_per_device,
            }),
        }
    }

    /// The LNC of a type that is in no catalog: Trainium 2 and 3 run with 2 unless told otherwise.
    fn usual_lnc(&self, ids: DeviceSet) -> u8 {
        let generation = |id| {
            sysfs::read(&sysfs::device_folder(self.root, id).join("info/architecture/instance_type")).ok()
        };
        let pairs = |text: String| matches!(text.trim(), "Trn2" | "Trn3");
        if ids.iter().find_map(generation).is_some_and(pairs) { 2 } else { 1 }
    }
}

/// A report of a machine whose type is in no catalog; a device that cannot be read has no links.
fn describe(instance_type: &str, lnc: u8, ids: DeviceSet, devices: &BTreeMap<u8, SysfsDevice>) -> NodeReport {
    let physical = devices.values().map(|device| device.cores).max().unwrap_or(1);
    let count = ids.iter().max().map_or(0, |id| id + 1);
    let device = |id| DeviceReport {
        id,
        links: devices.get(&id).map(|device| device.links).unwrap_or_default(),
        health: Health::Healthy,
    };
    NodeReport {
        v: REPORT_VERSION,
        instance_type: instance_type.to_owned(),
        lnc,
        cores_per_device: Some((physical / lnc).max(1)),
        devices: (0..count).map(device).collect(),
        holders: Vec::new(),
    }
}

impl Machine {
    /// Looks at every device's health anew.
    pub fn look_again(&mut self, root: &Path) {
        let devices = self.topology.all_devices().iter();
        self.faults = devices.filter_map(|id| Some((id, health::fault(root, id)?))).collect();
    }

    /// The devices that may not be given out.
    pub fn unhealthy(&self) -> DeviceSet {
        self.faults.keys().copied().collect()
    }

    /// What the node's annotation says of this machine.
    pub fn report(&self, holders: Vec<HolderReport>) -> NodeReport {
        let unhealthy = self.unhealthy();
        let device = |id: u8| DeviceReport {
            id,
            links: self.links.get(usize::from(id)).copied().unwrap_or_default(),
            health: if unhealthy.contains(id) { Health::Unhealthy } else { Health::Healthy },
        };
        NodeReport {
            v: REPORT_VERSION,
            instance_type: self.topology.instance_type().to_owned(),
            lnc: self.topology.lnc(),
            cores_per_device: Some(self.topology.cores_per_device()),
            devices: self.topology.all_devices().iter().map(device).collect(),
            holders,
        }
    }
}
