//! One node's shape as placement sees it, with the allowed sets of every count worked out once.
//! Made from the catalog or from a node's report; read by [`crate::occupancy`] and `placement`.

use std::fmt;
use std::str::FromStr;

use crate::catalog::InstanceType;
use crate::ids::{CoreSet, DeviceSet};
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

#[allow(clippy::todo)]
impl Topology {
    /// The shape of a type at `lnc` 1 or 2 (2 only on Trainium2 and 3).
    pub fn of(t: &InstanceType, lnc: u8, policy: Policy) -> Result<Topology, TopologyError> {
        Topology::named(&t.name, t, lnc, policy)
    }

    /// As [`Topology::of`], but texts call the type `name`: an alias of it.
    pub fn named(
        _name: &str,
        _t: &InstanceType,
        _lnc: u8,
        _policy: Policy,
    ) -> Result<Topology, TopologyError> {
        todo!()
    }

    /// A type without a known shape, as its node reports it.
    pub fn described(_report: &NodeReport, _policy: Policy) -> Result<Topology, TopologyError> {
        todo!()
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
    pub fn is_connected(&self, _devices: DeviceSet) -> bool {
        todo!()
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
    pub fn cores_of(&self, _devices: DeviceSet) -> CoreSet {
        todo!()
    }

    /// The devices that have any of the cores.
    pub fn devices_of(&self, _cores: CoreSet) -> DeviceSet {
        todo!()
    }

    /// Device counts with at least one allowed set, ascending.
    pub fn device_counts(&self) -> &[u8] {
        &self.device_counts
    }

    /// Core counts with at least one allowed set, ascending.
    pub fn core_counts(&self) -> Vec<u8> {
        todo!()
    }

    /// Allowed sets of `count` devices, ascending by sorted ids; empty if the count is not supported.
    pub fn device_sets(&self, count: u32) -> &[DeviceSet] {
        self.device_sets.get(count as usize).map(Vec::as_slice).unwrap_or_default()
    }

    /// Allowed sets of `count` logical cores, ascending by sorted ids; empty if the count is not supported.
    pub fn core_sets(&self, count: u32) -> &[CoreSet] {
        self.core_sets.get(count as usize).map(Vec::as_slice).unwrap_or_default()
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
