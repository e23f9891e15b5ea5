//! One node's devices, cores and links, with the candidate sets of every count worked out once. Made from the catalog
//! or from a node's report; read by [`crate::occupancy`], [`crate::placement`] and [`crate::holders`].

mod candidate_sets;
mod of_node;
mod of_report;
mod policy;
mod rules;

pub use self::of_node::NodeTopologyError;
pub use self::policy::{Policy, PolicyError};
pub use self::rules::rules;
use crate::catalog::{Generation, InstanceType};
use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;

/// One node's devices, cores and links, and its candidate sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    instance_type: String,
    /// None for a type that is not in the catalog.
    generation: Option<Generation>,
    lnc: u8,
    cores_per_device: u8,
    /// Index is the device id.
    links: Vec<DeviceSet>,
    device_counts: Vec<u8>,
    /// Index is the count.
    device_sets: Vec<Vec<DeviceSet>>,
    /// Index is the count.
    core_sets: Vec<Vec<CoreSet>>,
}

/// Why a topology cannot be worked out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The instance type cannot run at this LNC.
    #[error("instance type {instance_type} cannot run with LNC {lnc}; use {allowed}")]
    Lnc {
        /// The type's name, or the alias it was called by.
        instance_type: String,
        /// The LNC that was to be used.
        lnc: u8,
        /// What it can run at: `1` or `1 or 2`.
        allowed: &'static str,
    },
    /// The report leaves out what placement needs, or says what no node has.
    #[error("the report of a node of instance type {instance_type} {problem}")]
    Report {
        /// The name of the instance type.
        instance_type: String,
        /// What is wrong.
        problem: String,
    },
}

impl Topology {
    /// The topology of every node of an instance type, at LNC `lnc`: 1, or 2 on Trainium2 and Trainium3.
    ///
    /// # Errors
    /// [`TopologyError::Lnc`] if the type cannot run at this LNC.
    pub fn of(t: &InstanceType, lnc: u8, policy: Policy) -> Result<Topology, TopologyError> {
        Topology::named(&t.name, t, lnc, policy)
    }

    /// The topology of [`Topology::of`], whose texts call the type by `name`, an alias of it.
    ///
    /// # Errors
    /// Those of [`Topology::of`].
    pub fn named(name: &str, t: &InstanceType, lnc: u8, policy: Policy) -> Result<Topology, TopologyError> {
        let sizes = t.generation.logical_core_sizes();
        if !sizes.contains(&lnc) || !t.cores_per_device.is_multiple_of(lnc) {
            let allowed = if sizes.contains(&2) { "1 or 2" } else { "1" };
            return Err(TopologyError::Lnc { instance_type: name.to_owned(), lnc, allowed });
        }
        let links = t.links.iter().map(|linked| linked.iter().copied().collect()).collect();
        let mut topology = Topology::without_sets(name, lnc, t.cores_per_device / lnc, links);
        topology.generation = Some(t.generation);
        let device_sets = candidate_sets::of_type(&topology, t, policy);
        let long_runs = matches!(t.generation, Generation::Inf1 | Generation::Inf2);
        topology.set_candidates(device_sets, long_runs);
        Ok(topology)
    }

    fn without_sets(name: &str, lnc: u8, cores_per_device: u8, links: Vec<DeviceSet>) -> Topology {
        Topology {
            instance_type: name.to_owned(),
            generation: None,
            lnc,
            cores_per_device,
            links,
            device_counts: Vec::new(),
            device_sets: Vec::new(),
            core_sets: Vec::new(),
        }
    }

    fn set_candidates(&mut self, device_sets: Vec<Vec<DeviceSet>>, long_runs: bool) {
        self.core_sets = candidate_sets::of_cores(self, &device_sets, long_runs);
        self.device_counts =
            (0..=self.devices()).filter(|&count| !device_sets[usize::from(count)].is_empty()).collect();
        self.device_sets = device_sets;
    }

    /// The instance type's name, as texts say it.
    pub fn instance_type(&self) -> &str {
        &self.instance_type
    }

    /// The generation of its devices; none for a type that is not in the catalog.
    pub fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// Physical cores in one logical core, 1 or 2.
    pub fn lnc(&self) -> u8 {
        self.lnc
    }

    /// Number of devices, 1 to 64.
    pub fn devices(&self) -> u8 {
        self.links.len() as u8
    }

    /// Logical cores of one device, at least 1.
    pub fn cores_per_device(&self) -> u8 {
        self.cores_per_device
    }

    /// Logical cores of the node, 1 to 128.
    pub fn cores(&self) -> u8 {
        self.devices() * self.cores_per_device
    }

    /// Devices that `device` is directly linked to; none for an id that the node does not have.
    pub fn links(&self, device: u8) -> DeviceSet {
        self.links.get(usize::from(device)).copied().unwrap_or_default()
    }

    /// Whether each device reaches every other over links inside the set; false for the empty set.
    pub fn is_connected(&self, devices: DeviceSet) -> bool {
        let Some(first) = devices.first() else { return false };
        let mut reached = DeviceSet::single(first);
        loop {
            let next = reached
                .iter()
                .fold(reached, |next, device| next.union(self.links(device)))
                .intersection(devices);
            if next == reached {
                return reached == devices;
            }
            reached = next;
        }
    }

    /// Every device.
    pub fn all_devices(&self) -> DeviceSet {
        DeviceSet::run(0, self.devices())
    }

    /// Every logical core.
    pub fn all_cores(&self) -> CoreSet {
        CoreSet::run(0, self.cores())
    }

    /// The logical cores of the devices; ids that the node does not have are left out.
    pub fn cores_of(&self, devices: DeviceSet) -> CoreSet {
        let size = self.cores_per_device;
        let devices = devices.intersection(self.all_devices());
        devices.iter().fold(CoreSet::EMPTY, |cores, device| cores.union(CoreSet::run(device * size, size)))
    }

    /// The devices that have any of the cores; ids that the node does not have are left out.
    pub fn devices_of(&self, cores: CoreSet) -> DeviceSet {
        let mut rest = cores.intersection(self.all_cores());
        let mut devices = DeviceSet::EMPTY;
        while let Some(core) = rest.first() {
            let device = DeviceSet::single(core / self.cores_per_device);
            devices = devices.union(device);
            rest = rest.difference(self.cores_of(device));
        }
        devices
    }

    /// Device counts with at least one candidate set, ascending.
    pub fn device_counts(&self) -> &[u8] {
        &self.device_counts
    }

    /// Core counts with at least one candidate set, ascending.
    pub fn core_counts(&self) -> Vec<u8> {
        (0..=self.cores()).filter(|&count| !self.core_sets(u32::from(count)).is_empty()).collect()
    }

    /// Candidate sets of `count` devices, ascending by sorted ids; empty if the count is not supported.
    pub fn device_sets(&self, count: u32) -> &[DeviceSet] {
        self.device_sets.get(count as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Candidate sets of `count` logical cores, ascending by sorted ids; empty if the count is not supported.
    pub fn core_sets(&self, count: u32) -> &[CoreSet] {
        self.core_sets.get(count as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the resource has a candidate set of `count`.
    pub fn supports(&self, resource: Resource, count: u32) -> bool {
        match resource {
            Resource::Device => !self.device_sets(count).is_empty(),
            Resource::Core => !self.core_sets(count).is_empty(),
        }
    }

    /// Whether these logical cores are a candidate set of the resource: for devices, all cores of a candidate set of
    /// devices.
    pub fn is_candidate_set(&self, resource: Resource, cores: CoreSet) -> bool {
        match resource {
            Resource::Device => {
                let devices = self.devices_of(cores);
                self.cores_of(devices) == cores && self.device_sets(devices.len()).contains(&devices)
            }
            Resource::Core => self.core_sets(cores.len()).contains(&cores),
        }
    }
}
