//! Finds out what this machine is: instance type, LNC and topology. Called by `monitor` until a look succeeds. That look
//! fixes the topology, so that an id once advertised never vanishes. For a type in the catalog DMI, the nodes in `/dev` and the
//! catalog suffice; of another type sysfs must say how many cores a device has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::join_all;
use neuron_core::catalog::{Catalog, Generation, InstanceType};
use neuron_core::ids::DeviceSet;
use neuron_core::report::{DeviceReport, Health, NodeReport, REPORT_VERSION};
use neuron_core::topology::{Policy, Topology, TopologyError};
use runtime::System;
use tokio::time::timeout;

use crate::config::HealthOptions;
use crate::hardware::device_files::{DeviceFiles, Shape, device_ids};
use crate::hardware::driver::Driver;
use crate::hardware::health::{DeviceWatch, LOOK_TIMEOUT};
use crate::hardware::held_lnc::HeldLnc;
use crate::hardware::machine::Machine;
use crate::hardware::sysfs::{self, FileError};

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
    /// How devices' health is read.
    pub health: &'a HealthOptions,
}

/// Why there is nothing to advertise yet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// A file is missing or malformed.
    #[error(transparent)]
    File(#[from] FileError),
    /// The driver shows no device.
    #[error(
        "no neuronN is in {} or in {}; is the Neuron driver loaded?",
        nodes.display(), path.display()
    )]
    NoDevices {
        /// The folder of device nodes.
        nodes: PathBuf,
        /// The driver's folder.
        path: PathBuf,
    },
    /// A type in no catalog, of whose devices the driver does not say how many cores they have.
    #[error(
        "instance type {instance_type} is in no catalog, and no core_count is below {}; add the type with --catalog, or say with \
         --instance-type which type it is like",
        path.display()
    )]
    NoCores {
        /// The instance type's name, such as `trn9.48xlarge`.
        instance_type: String,
        /// The driver's folder.
        path: PathBuf,
    },
    /// The driver shows devices that the type does not have.
    #[error(
        "this machine has devices {found} (below {}), but instance type {instance_type} has {expected}; set --instance-type to what this machine is",
        path.display()
    )]
    TooMany {
        /// The plugin's root.
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
    /// Looks at the machine. The LNC that pods hold (`held`) counts before the machine's own configuration, which is not read then.
    ///
    /// # Errors
    /// Anything without which no device can be advertised. A bad device is unhealthy and no error, beside good ones, and where the
    /// instance type is known.
    pub async fn look(&self, held: Option<&HeldLnc>) -> Result<Machine, DiscoveryError> {
        let (system, root) = (self.system, self.root);
        let instance_type = match self.instance_type {
            Some(name) => name.to_owned(),
            None => sysfs::product_name(system, root).await?,
        };
        let known = self.catalog.find(&instance_type);
        let ids = device_ids(system, root).await?;
        if ids.is_empty() {
            return Err(DiscoveryError::NoDevices {
                nodes: root.join("dev"),
                path: root.join(sysfs::DEVICES),
            });
        }
        let devices = match self.devices(ids).await {
            Ok(devices) => devices,
            // The catalog says what a machine of that type has; its devices are unhealthy until they can be read.
            Err(_) if known.is_some() => BTreeMap::new(),
            Err(error) => return Err(error.into()),
        };
        // A setting that makes no sense is no matter where another LNC stays in force.
        let lnc = match held.and_then(|held| held.of(&instance_type, known)) {
            Some(held) => Some(held),
            None => sysfs::lnc(system, root).await?,
        };
        let (topology, generation, default_lnc) = match known {
            Some(known) => {
                self.check(&instance_type, known, ids, &devices)?;
                let lnc = lnc.unwrap_or(known.default_lnc);
                let topology = Topology::named(&instance_type, known, lnc, self.policy)?;
                (topology, known.generation, known.default_lnc)
            }
            None => {
                let cores = devices.values().filter_map(|device| device.cores).max();
                let cores = cores.ok_or_else(|| DiscoveryError::NoCores {
                    instance_type: instance_type.clone(),
                    path: root.join(sysfs::DEVICES),
                })?;
                let generation = self.generation(ids).await;
                let lnc = lnc.unwrap_or_else(|| usual_lnc(generation));
                let report = describe(&instance_type, lnc, cores, ids, &devices);
                // Of the generations the newest shows most of its health.
                let topology = Topology::of_report(&report)?;
                (topology, generation.unwrap_or(Generation::Trn3), usual_lnc(generation))
            }
        };
        let links = topology.all_devices().iter();
        let links =
            links.map(|id| devices.get(&id).and_then(|device| device.links).unwrap_or_default()).collect();
        // Of a known type only what was read and made no sense is waited for; the catalog says the rest.
        let read: DeviceSet = devices.keys().copied().collect();
        let unread = if known.is_some() { ids } else { topology.all_devices() }.difference(read);
        let watch = DeviceWatch {
            system: system.clone(),
            files: DeviceFiles::new(root, 0),
            generation,
            unread: false,
            cores: known.map(|known| known.cores_per_device),
            options: Arc::new(self.health.clone()),
        };
        let watches = topology.all_devices().iter().map(|id| DeviceWatch {
            files: DeviceFiles::new(root, id),
            unread: unread.contains(id),
            ..watch.clone()
        });
        let mut machine = Machine {
            links,
            shown: ids,
            is_known_type: known.is_some(),
            default_lnc,
            driver: Driver::look(system, root, &Driver::NotShown).await,
            watches: watches.collect(),
            topology: Arc::new(topology),
            faults: BTreeMap::new(),
            unknown: BTreeMap::new(),
            withheld: DeviceSet::EMPTY,
            recovered: BTreeMap::new(),
        };
        machine = machine.with(machine.look().await);
        machine.withheld = machine.unhealthy();
        Ok(machine)
    }

    /// What the driver says about each device whose files make sense, by id.
    ///
    /// # Errors
    /// No device's files make sense.
    async fn devices(&self, ids: DeviceSet) -> Result<BTreeMap<u8, Shape>, FileError> {
        let read = async |id| {
            let mut files = DeviceFiles::new(self.root, id);
            match timeout(LOOK_TIMEOUT, files.shape(self.system)).await {
                Ok(shape) => (id, shape),
                Err(_) => (id, Err(FileError::Hangs { path: files.at })),
            }
        };
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
        devices: &BTreeMap<u8, Shape>,
    ) -> Result<(), DiscoveryError> {
        if !ids.is_subset(DeviceSet::run(0, known.devices)) {
            return Err(DiscoveryError::TooMany {
                path: self.root.to_owned(),
                found: ids,
                instance_type: instance_type.to_owned(),
                expected: known.devices,
            });
        }
        let shown = devices.iter().filter_map(|(id, device)| Some((*id, device.cores?)));
        match shown.into_iter().find(|(_, cores)| *cores != known.cores_per_device) {
            None => Ok(()),
            Some((id, found)) => Err(DiscoveryError::Cores {
                path: DeviceFiles::new(self.root, id).folder.join("core_count"),
                found,
                instance_type: instance_type.to_owned(),
                expected: known.cores_per_device,
            }),
        }
    }

    /// The generation of a type that is in no catalog, as the driver calls it.
    async fn generation(&self, ids: DeviceSet) -> Option<Generation> {
        for id in ids.iter() {
            let read =
                DeviceFiles::new(self.root, id).read(self.system, "info/architecture/instance_type").await;
            if let Ok(Some(family)) = read {
                return Generation::ALL.into_iter().find(|generation| generation.family() == family.trim());
            }
        }
        None
    }
}

/// The LNC of a type that is in no catalog: Trainium2 and Trainium3 run with 2 unless configured otherwise.
fn usual_lnc(generation: Option<Generation>) -> u8 {
    if matches!(generation, Some(Generation::Trn2 | Generation::Trn3)) { 2 } else { 1 }
}

/// Describes a machine whose type is in no catalog. A device that cannot be read has no links.
fn describe(
    instance_type: &str,
    lnc: u8,
    physical: u8,
    ids: DeviceSet,
    devices: &BTreeMap<u8, Shape>,
) -> NodeReport {
    let count = ids.iter().max().map_or(0, |id| id + 1);
    let device = |id| DeviceReport {
        id,
        links: devices.get(&id).and_then(|device| device.links).unwrap_or_default(),
        health: Health::Healthy,
        reason: None,
    };
    NodeReport {
        v: REPORT_VERSION,
        time: None,
        rules: None,
        instance_type: instance_type.to_owned(),
        lnc,
        cores_per_device: Some((physical / lnc).max(1)),
        devices: (0..count).map(device).collect(),
        holders: Vec::new(),
    }
}
