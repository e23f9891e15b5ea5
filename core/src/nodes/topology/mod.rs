//! One node's shape as placement sees it, with the allowed sets of every count worked out once.
//! Made from the catalog or from a node's report; read by [`crate::occupancy`] and `placement`.

mod candidate_sets;
mod of_node;

use std::fmt;
use std::str::FromStr;

pub use self::of_node::{NodeRefusal, topology_of};
use crate::catalog::{Generation, InstanceType};
use crate::ids::{CoreSet, DeviceSet, MAX_CORES};
use crate::names::Resource;
use crate::report::NodeReport;

/// Which sets of devices may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The counts and sets that AWS documents.
    #[default]
    Documented,
    /// Any linked set of a count that the runtime supports.
    Linked,
}

/// One node's shape, and the allowed sets of every count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    instance_type: String,
    lnc: u8,
    cores_per_device: u8,
    links: Vec<DeviceSet>,
    device_counts: Vec<u8>,
    /// Index is the count.
    device_sets: Vec<Vec<DeviceSet>>,
    /// Index is the count.
    core_sets: Vec<Vec<CoreSet>>,
}

/// Why a node's shape cannot be worked out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// The type cannot run with this logical core size.
    #[error("instance type {instance_type} cannot run with LNC {lnc}; use {allowed}")]
    Lnc {
        /// The type.
        instance_type: String,
        /// The LNC given.
        lnc: u8,
        /// What it can run with.
        allowed: &'static str,
    },
    /// The report leaves out what placement needs, or says what no node has.
    #[error("the report of a node of instance type {instance_type} {problem}")]
    Report {
        /// The type.
        instance_type: String,
        /// What is wrong.
        problem: String,
    },
}

impl Topology {
    /// The shape of a type at `lnc` 1 or 2 (2 only on Trainium2 and 3).
    pub fn of(t: &InstanceType, lnc: u8, policy: Policy) -> Result<Topology, TopologyError> {
        Topology::named(&t.name, t, lnc, policy)
    }

    /// As [`Topology::of`], but texts call the type `name`: an alias of it.
    pub fn named(name: &str, t: &InstanceType, lnc: u8, policy: Policy) -> Result<Topology, TopologyError> {
        let sizes = t.generation.logical_core_sizes();
        if !sizes.contains(&lnc) || !t.cores_per_device.is_multiple_of(lnc) {
            let allowed = if sizes.contains(&2) { "1 or 2" } else { "1" };
            return Err(TopologyError::Lnc { instance_type: name.to_owned(), lnc, allowed });
        }
        let links = t.links.iter().map(|linked| linked.iter().copied().collect()).collect();
        let mut topology = Topology::bare(name, lnc, t.cores_per_device / lnc, links);
        let device_sets = candidate_sets::of_type(&topology, t, policy);
        let long_runs = matches!(t.generation, Generation::Inf1 | Generation::Inf2);
        topology.allow(device_sets, long_runs);
        Ok(topology)
    }

    /// A type without a known shape, as its node reports it: one device, all, or consecutive ids that are
    /// linked, under either policy.
    pub fn described(report: &NodeReport, _policy: Policy) -> Result<Topology, TopologyError> {
        let name = &report.instance_type;
        let wrong = |problem: String| TopologyError::Report { instance_type: name.clone(), problem };
        let ids = report.device_ids();
        let devices = ids.len() as u8;
        if devices == 0 || ids != DeviceSet::run(0, devices) {
            return Err(wrong(format!("lists devices {{{ids}}}; their ids must count from 0 without a gap")));
        }
        let Some(cores_per_device) = report.cores_per_device.filter(|&cores| cores > 0) else {
            return Err(wrong(
                "does not say coresPerDevice, which a type without a known shape needs".to_owned(),
            ));
        };
        let cores = usize::from(devices) * usize::from(cores_per_device);
        if cores > MAX_CORES {
            return Err(wrong(format!("has {cores} logical cores; at most {MAX_CORES} are supported")));
        }
        if !(1..=2).contains(&report.lnc) {
            return Err(TopologyError::Lnc {
                instance_type: name.clone(),
                lnc: report.lnc,
                allowed: "1 or 2",
            });
        }
        let mut links = vec![DeviceSet::EMPTY; usize::from(devices)];
        // A link that one end alone reports is a link: a lost device reports none.
        for device in &report.devices {
            for other in device.links.intersection(ids).iter().filter(|&other| other != device.id) {
                links[usize::from(device.id)] = links[usize::from(device.id)].union(DeviceSet::single(other));
                links[usize::from(other)] = links[usize::from(other)].union(DeviceSet::single(device.id));
            }
        }
        let mut topology = Topology::bare(name, report.lnc, cores_per_device, links);
        let device_sets = candidate_sets::described(&topology);
        topology.allow(device_sets, false);
        Ok(topology)
    }

    fn bare(name: &str, lnc: u8, cores_per_device: u8, links: Vec<DeviceSet>) -> Topology {
        Topology {
            instance_type: name.to_owned(),
            lnc,
            cores_per_device,
            links,
            device_counts: Vec::new(),
            device_sets: Vec::new(),
            core_sets: Vec::new(),
        }
    }

    fn allow(&mut self, device_sets: Vec<Vec<DeviceSet>>, long_runs: bool) {
        self.core_sets = candidate_sets::of_cores(self, &device_sets, long_runs);
        self.device_counts =
            (0..=self.devices()).filter(|&count| !device_sets[usize::from(count)].is_empty()).collect();
        self.device_sets = device_sets;
    }

    /// The type's name, as texts say it.
    pub fn instance_type(&self) -> &str {
        &self.instance_type
    }

    /// Physical cores in one logical core.
    pub fn lnc(&self) -> u8 {
        self.lnc
    }

    /// Number of devices.
    pub fn devices(&self) -> u8 {
        self.links.len() as u8
    }

    /// Logical cores of one device.
    pub fn cores_per_device(&self) -> u8 {
        self.cores_per_device
    }

    /// Logical cores of the node, at most 128.
    pub fn cores(&self) -> u8 {
        self.devices() * self.cores_per_device
    }

    /// Devices that `device` is linked to.
    pub fn links(&self, device: u8) -> DeviceSet {
        self.links.get(usize::from(device)).copied().unwrap_or_default()
    }

    /// Whether the devices are linked to each other without any other device between.
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

    /// The logical cores of the devices.
    pub fn cores_of(&self, devices: DeviceSet) -> CoreSet {
        let size = self.cores_per_device;
        let devices = devices.intersection(self.all_devices());
        devices.iter().fold(CoreSet::EMPTY, |cores, device| cores.union(CoreSet::run(device * size, size)))
    }

    /// The devices that have any of the cores.
    pub fn devices_of(&self, cores: CoreSet) -> DeviceSet {
        cores.intersection(self.all_cores()).iter().map(|core| core / self.cores_per_device).collect()
    }

    /// Device counts with at least one allowed set, ascending.
    pub fn device_counts(&self) -> &[u8] {
        &self.device_counts
    }

    /// Core counts with at least one allowed set, ascending.
    pub fn core_counts(&self) -> Vec<u8> {
        (0..=self.cores()).filter(|&count| !self.core_sets(u32::from(count)).is_empty()).collect()
    }

    /// Allowed sets of `count` devices, ascending by sorted ids; empty if the count is not supported.
    pub fn device_sets(&self, count: u32) -> &[DeviceSet] {
        self.device_sets.get(count as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Allowed sets of `count` logical cores, ascending by sorted ids; empty if the count is not supported.
    pub fn core_sets(&self, count: u32) -> &[CoreSet] {
        self.core_sets.get(count as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether any set of `count` of the resource is allowed.
    pub fn supports(&self, resource: Resource, count: u32) -> bool {
        match resource {
            Resource::Device => !self.device_sets(count).is_empty(),
            Resource::Core => !self.core_sets(count).is_empty(),
        }
    }

    /// Whether these logical cores are an allowed set under the resource's name: for devices, all cores of an allowed
    /// set of devices.
    pub fn allows(&self, resource: Resource, cores: CoreSet) -> bool {
        match resource {
            Resource::Device => {
                let devices = self.devices_of(cores);
                self.cores_of(devices) == cores && self.device_sets(devices.len()).contains(&devices)
            }
            Resource::Core => self.core_sets(cores.len()).contains(&cores),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Documented => "documented",
            Policy::Linked => "linked",
        })
    }
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a placement policy; use documented or linked")]
pub struct PolicyError(String);

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        match text {
            "documented" => Ok(Policy::Documented),
            "linked" => Ok(Policy::Linked),
            _ => Err(PolicyError(text.to_owned())),
        }
    }
}
