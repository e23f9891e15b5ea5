//! A Neuron host as its readers see it: from `/dev`, sysfs, DMI and the LNC setting below a root, and from the catalog what no
//! file says. Called by [`crate::ls`] and [`crate::monitor`], which trust files as the programs of AWS do, never the marker.

mod files;

use std::ops::Range;
use std::path::{Path, PathBuf};

use neuron_core::catalog::{Catalog, Generation, InstanceType};

pub(crate) use files::ROOT_LINK;
pub use files::find_root;

use crate::fault::{Fault, FaultError, Faults};
use crate::machine::pci::places;
use crate::state::{NeuronProcess, StateError, processes};
use files::{DeviceNode, Files};

/// A host with at least one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What DMI says.
    pub identity: Identity,
    /// Generation of the devices.
    pub generation: Generation,
    /// Physical cores in one logical core, at least 1.
    pub lnc: u8,
    /// In the order of their ids.
    pub devices: Vec<Device>,
    /// Who has devices open.
    pub processes: Vec<NeuronProcess>,
}

/// What DMI says of the instance; each is empty where it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// EC2 instance type.
    pub instance_type: String,
    /// EC2 instance id.
    pub instance_id: String,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Number in the name of its `/dev` node: in a container counted from 0 (docs/reference/neuron.md §3.4).
    pub id: u8,
    /// Id on the host, which is the node's minor number; sysfs and other devices' links use it.
    pub host_id: u8,
    /// Number of physical cores, at least 1.
    pub cores: u8,
    /// Host ids of the devices it is linked to, in the driver's order.
    pub connected: Vec<u8>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// PCI address with its domain, such as `0000:cc:00.0`.
    pub pci_address: String,
    /// NUMA node; -1 where the host has none.
    pub numa_node: i8,
    /// The CPUs near it as Linux lists them, such as `0-31,64-95`; empty where they are not known.
    pub cpus: String,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The folder has no device node.
    #[error("no Neuron device under {}: make a machine with `fake-neuron up` or load the driver", .folder.display())]
    NoDevices {
        /// The `/dev` folder that was looked into.
        folder: PathBuf,
    },
    /// Neither DMI nor sysfs says what the devices are.
    #[error(
        "instance type {instance_type:?} is not known and sysfs does not say the generation of neuron{device}"
    )]
    UnknownGeneration {
        /// What DMI says.
        instance_type: String,
        /// Host id of the device whose sysfs files were looked at.
        device: u8,
    },
    /// The list of processes cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The list of faults cannot be used.
    #[error(transparent)]
    Faults(#[from] FaultError),
}

impl HostError {
    /// In the words of neuron-ls where those were captured: unmodified programs read them, to which nothing is fake.
    pub(crate) fn as_the_tools_say(&self) -> String {
        match self {
            HostError::NoDevices { .. } => "failed to discover Neuron devices".to_owned(),
            other => other.to_string(),
        }
    }
}

impl Identity {
    /// Reads what DMI says below `root`.
    pub fn read(root: &Path) -> Identity {
        let files = Files::below(root);
        Identity { instance_type: files.dmi("product_name"), instance_id: files.dmi("board_asset_tag") }
    }
}

impl Host {
    /// Reads the host below `root`. `variable` looks up an environment variable: NEURON_LOGICAL_NC_CONFIG, or the older
    /// NEURON_RT_VIRTUAL_CORE_SIZE, goes before the node's setting (docs/reference/neuron.md §1.3).
    ///
    /// # Errors
    /// There is no device, nothing says what the devices are, or the list of processes or of faults cannot be used.
    pub fn read(root: &Path, variable: impl Fn(&str) -> Option<String>) -> Result<Host, HostError> {
        let files = Files::below(root);
        let nodes = files.device_nodes();
        let Some(first) = nodes.first() else {
            return Err(HostError::NoDevices { folder: root.join("dev") });
        };
        let identity = Identity::read(root);
        let model = Catalog::embedded().find(&identity.instance_type);
        let generation = model.map(|model| model.generation).or_else(|| files.generation(first.host_id));
        let Some(generation) = generation else {
            let instance_type = identity.instance_type;
            return Err(HostError::UnknownGeneration { instance_type, device: first.host_id });
        };
        // All types of a generation have the same device.
        let same_device = |model: &&InstanceType| model.generation == generation;
        let like = model.or_else(|| Catalog::embedded().types().iter().find(same_device));
        let devices = devices(&files, &nodes, &identity.instance_type, model, like);
        let cores = devices.first().map_or(1, |device| device.cores);
        let lnc = lnc(&files, generation, cores, like.map_or(1, |like| like.default_lnc), variable);
        let processes = users(root, &devices)?;
        Ok(Host { identity, generation, lnc, devices, processes })
    }

    /// Whether physical cores can be joined to logical ones: on Trainium2 and later.
    pub fn has_logical_cores(&self) -> bool {
        has_logical_cores(self.generation)
    }

    /// Number of logical cores of one device, at least 1.
    pub fn logical_cores(&self, device: &Device) -> u8 {
        (device.cores / self.lnc.max(1)).max(1)
    }

    /// The ids of a device's logical cores, as NEURON_RT_VISIBLE_CORES takes them.
    pub fn logical_core_ids(&self, device: &Device) -> Range<u32> {
        let cores = u32::from(self.logical_cores(device));
        let first = u32::from(device.id) * cores;
        first..first + cores
    }

    /// The device of a physical core, by the core's number on the host, and the core's number inside the device; none where that
    /// device is not here.
    pub fn physical_core(&self, core: u16) -> Option<(&Device, u8)> {
        physical_core(&self.devices, core)
    }
}

fn physical_core(devices: &[Device], core: u16) -> Option<(&Device, u8)> {
    devices.iter().find_map(|device| {
        let first = u16::from(device.host_id) * u16::from(device.cores);
        let inside = u8::try_from(core.checked_sub(first)?).ok()?;
        (inside < device.cores).then_some((device, inside))
    })
}

fn devices(
    files: &Files<'_>,
    nodes: &[DeviceNode],
    instance_type: &str,
    model: Option<&InstanceType>,
    like: Option<&InstanceType>,
) -> Vec<Device> {
    let last = nodes.iter().map(|node| node.host_id).max().unwrap_or(0);
    // A container has a part of the host's devices, but a type that is known says how many those are.
    let places = places(instance_type, model.map_or(last.saturating_add(1), |model| model.devices));
    let device = |node: &DeviceNode| {
        let host_id = node.host_id;
        let place = places.get(usize::from(host_id));
        Device {
            id: node.id,
            host_id,
            cores: files.core_count(host_id).or(like.map(|like| like.cores_per_device)).unwrap_or(1).max(1),
            connected: files.connected(host_id).unwrap_or_else(|| driver_links(model, host_id)),
            memory_bytes: like.map_or(0, |like| like.device_memory_bytes),
            pci_address: place.map(|place| place.address.to_string()).unwrap_or_default(),
            numa_node: place.and_then(|place| i8::try_from(place.numa_node?).ok()).unwrap_or(-1),
            cpus: place.map(|place| place.cpus.clone()).unwrap_or_default(),
        }
    };
    nodes.iter().map(device).collect()
}

/// Processes that have devices open, and those that only a fault says so of ([`Fault::CoreHeld`]).
fn users(root: &Path, devices: &[Device]) -> Result<Vec<NeuronProcess>, HostError> {
    let mut users = processes(root)?;
    for fault in Faults::read(root)?.in_force() {
        let Fault::CoreHeld { core, pid } = fault else { continue };
        let device = physical_core(devices, *core).map(|(device, _)| device.host_id);
        let (devices, cores) = (device.into_iter().collect(), vec![*core]);
        users.push(NeuronProcess { pid: *pid, command: String::new(), devices, cores });
    }
    Ok(users)
}

/// The links that the type's driver shows, where sysfs is not the host's or may not be read.
fn driver_links(model: Option<&InstanceType>, host_id: u8) -> Vec<u8> {
    model.and_then(|model| model.driver_links.get(usize::from(host_id))).cloned().unwrap_or_default()
}

/// The LNC in force: a value that does not divide a device's cores is as none.
fn lnc(
    files: &Files<'_>,
    generation: Generation,
    cores: u8,
    default: u8,
    variable: impl Fn(&str) -> Option<String>,
) -> u8 {
    if !has_logical_cores(generation) {
        return 1;
    }
    let fits = |lnc: &u8| *lnc > 0 && cores.is_multiple_of(*lnc);
    let names = ["NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"];
    let asked = names.into_iter().find_map(|name| variable(name)?.trim().parse().ok().filter(fits));
    asked.or_else(|| files.lnc_setting().filter(fits)).unwrap_or(default.max(1))
}

fn has_logical_cores(generation: Generation) -> bool {
    generation >= Generation::Trn2
}

/// The values of a device's counters by their names; 0 where its driver has no such counter.
pub(crate) fn error_counters<const N: usize>(root: &Path, device: &Device, names: [&str; N]) -> [u64; N] {
    names.map(|name| {
        let text = Files::below(root).attribute(device.host_id, name);
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    })
}
