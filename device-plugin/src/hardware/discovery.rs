//! Finds out what this machine is: instance type, LNC and topology. Called by `monitor` until a look succeeds. That look
//! fixes the topology, so that an id once advertised never vanishes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::ids::DeviceSet;
use neuron_core::report::{DeviceReport, Health, NodeReport, REPORT_VERSION};
use neuron_core::topology::{Policy, Topology, TopologyError};
use runtime::System;

use crate::hardware::held_lnc::HeldLnc;
use crate::hardware::machine::Machine;
use crate::hardware::sysfs::{self, DeviceFiles, FileError, SysfsDevice};

/// Where and how to look.
#[derive(Clone, Copy, Debug)]
pub struct Discovery<'a> {
    /// Whose files are read.
    pub system: &'a System,
    /// The folder that holds `/dev`, `/sys` and `/opt`.
    pub root: &'a Path,
    /// The known instance types.
    pub catalog: &'a Catalog,
    /// Which candidate sets the topology has.
    pub policy: Policy,
    /// The instance type, in place of what DMI says.
    pub instance_type: Option<&'a str>,
}

/// Why there is nothing to advertise yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// A file is missing or malformed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The driver shows no device.
    #[error("no neuronN folder in {}; is the Neuron driver loaded?", path.display())]
    NoDevices {
        /// The driver's folder.
        path: PathBuf,
    },
    /// The driver shows devices that the type does not have.
    #[error(
        "{} has devices {found}, but instance type {instance_type} has {expected}; set --instance-type to what this machine is",
        path.display()
    )]
    TooMany {
        /// The driver's folder.
        path: PathBuf,
        /// The ids that it shows.
        found: DeviceSet,
        /// The instance type's name, such as `trn1.32xlarge`.
        instance_type: String,
        /// Number of devices of that type.
        expected: u8,
    },
    /// The driver shows another number of physical cores than the type has.
    #[error(
        "{} holds {found}, but a device of instance type {instance_type} has {expected} cores; set --instance-type to what this machine is",
        path.display()
    )]
    Cores {
        /// The device's `core_count`.
        path: PathBuf,
        /// Physical cores that the driver shows.
        found: u8,
        /// The instance type's name, such as `trn1.32xlarge`.
        instance_type: String,
        /// Physical cores that the type has.
        expected: u8,
    },
    /// The instance type cannot run as configured.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl Discovery<'_> {
    /// Looks at the machine. The LNC that pods hold (`held`) counts before the machine's own configuration.
    ///
    /// # Errors
    /// Anything without which no device can be advertised. One bad device among good ones is unhealthy, and no error.
    pub async fn look(&self, held: Option<&HeldLnc>) -> Result<Machine, DiscoveryError> {
        let (system, root) = (self.system, self.root);
        let instance_type = match self.instance_type {
            Some(name) => name.to_owned(),
            None => sysfs::product_name(system, root).await?,
        };
        let known = self.catalog.find(&instance_type);
        let ids = sysfs::device_ids(system, root).await?;
        if ids.is_empty() {
            return Err(DiscoveryError::NoDevices { path: root.join(sysfs::DEVICES) });
        }
        let devices = self.devices(ids).await?;
        let configured = sysfs::lnc(system, root).await?;
        let held = held.filter(|held| held.instance_type == instance_type).map(|held| held.lnc);
        let lnc = held.or(configured);
        let topology = match known {
            Some(known) => {
                self.check(&instance_type, known, ids, &devices)?;
                Topology::named(&instance_type, known, lnc.unwrap_or(known.default_lnc), self.policy)?
            }
            None => {
                let lnc = match lnc {
                    Some(lnc) => lnc,
                    None => self.usual_lnc(ids).await,
                };
                Topology::of_report(&describe(&instance_type, lnc, ids, &devices))?
            }
        };
        let links = topology.all_devices().iter();
        let links = links.map(|id| devices.get(&id).map(|device| device.links).unwrap_or_default()).collect();
        let unread = topology.all_devices().difference(devices.keys().copied().collect());
        let files = topology.all_devices().iter().map(|id| DeviceFiles::new(root, id)).collect();
        let faults = BTreeMap::new();
        let mut machine = Machine { topology: Arc::new(topology), links, unread, files, faults };
        machine.faults = machine.look(system).await;
        Ok(machine)
    }

    /// What the driver says about each device that can be read, by id.
    async fn devices(&self, ids: DeviceSet) -> Result<BTreeMap<u8, SysfsDevice>, FileError> {
        let read = async |id| (id, sysfs::device(self.system, &DeviceFiles::new(self.root, id)).await);
        let mut devices = BTreeMap::new();
        let mut first_error = None;
        for (id, device) in join_all(ids.iter().map(read)).await {
            match device {
                Ok(device) => {
                    devices.insert(id, device);
                }
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) if devices.is_empty() => Err(error),
            _ => Ok(devices),
        }
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
                path: DeviceFiles::new(self.root, *id).core_count,
                found: device.cores,
                instance_type: instance_type.to_owned(),
                expected: known.cores_per_device,
            }),
        }
    }

    /// The LNC of a type that is in no catalog: Trainium2 and Trainium3 run with 2 unless configured otherwise.
    async fn usual_lnc(&self, ids: DeviceSet) -> u8 {
        for id in ids.iter() {
            let path = DeviceFiles::new(self.root, id).folder.join("info/architecture/instance_type");
            if let Ok(generation) = sysfs::read(self.system, &path).await {
                return if matches!(generation.trim(), "Trn2" | "Trn3") { 2 } else { 1 };
            }
        }
        1
    }
}

/// Describes a machine whose type is in no catalog. A device that cannot be read has no links.
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
