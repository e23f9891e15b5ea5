//! The node report: what the device plugin says of its node in the annotation `neuron-scheduler/devices`
//! (docs/architecture.md §3). Written by the device plugin, read by [`crate::holders`] and [`crate::topology`].

use serde::{Deserialize, Serialize};

use crate::ids::{CoreSet, DeviceSet};
use crate::names::NODE_REPORT;

/// The version that this program writes, and the only one that it reads.
pub const REPORT_VERSION: u32 = 1;

/// What one node has and what kubelet really gave to whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeReport {
    /// Version, [`REPORT_VERSION`].
    pub v: u32,
    /// When it last changed, RFC 3339 in UTC, for people; health and holders are as of then. Who wrote it may have ended since: the
    /// plugin's Lease says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The rules by which the plugin gives sets ([`crate::topology::rules`]). An extender with others places what the plugin refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// Instance type as the machine itself says it, such as `trn1.32xlarge`.
    pub instance_type: String,
    /// Logical NeuronCore configuration of the node: physical cores in one logical core, 1 or 2.
    pub lnc: u8,
    /// Logical cores of one device, at least 1; needed for types that are not in the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_per_device: Option<u8>,
    /// Every device that the node has or should have; a lost one stays, unhealthy.
    pub devices: Vec<DeviceReport>,
    /// Every pod that kubelet gave devices to.
    pub holders: Vec<HolderReport>,
}

/// One device of a [`NodeReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceReport {
    /// Device id, 0 to 63.
    pub id: u8,
    /// Devices it is linked to, as the node's sysfs says.
    pub links: DeviceSet,
    /// Whether it may be given to new pods.
    pub health: Health,
    /// Why it is not healthy, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether a device may be given to new pods: kubelet's own two words, and one for what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Health {
    /// It may.
    Healthy,
    /// It may not; running pods keep it.
    Unhealthy,
    /// It may: the plugin could not read what the driver says of its health, and serves it all the same.
    Unknown,
}

impl Health {
    /// Whether the device may be given to new pods.
    pub fn is_served(self) -> bool {
        self != Health::Unhealthy
    }
}

/// One pod with devices in a [`NodeReport`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HolderReport {
    /// The pod as `namespace/name`.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Every logical core it holds under either name, host numbering.
    pub cores: CoreSet,
}

/// What of a report decides who holds what. The extender keeps one for each node, so there is nothing else in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The devices that the report lists, in any health.
    pub devices: DeviceSet,
    /// Those that may not be given to new pods.
    pub unhealthy: DeviceSet,
    /// Every pod that kubelet gave devices to: its UID and every logical core it holds.
    pub holders: Box<[(Box<str>, CoreSet)]>,
}

impl From<&NodeReport> for Reported {
    fn from(report: &NodeReport) -> Self {
        let holders = report.holders.iter().map(|holder| (holder.uid.as_str().into(), holder.cores));
        Reported { devices: report.device_ids(), unhealthy: report.unhealthy(), holders: holders.collect() }
    }
}

/// Why a report cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not the JSON this project writes.
    #[error(
        "node annotation {NODE_REPORT} cannot be read: {0}; restart the node's device plugin to have it written anew"
    )]
    Malformed(#[source] serde_json::Error),
    /// JSON, but no object.
    #[error(
        "node annotation {NODE_REPORT} is not a JSON object; restart the node's device plugin to have it written anew"
    )]
    NotAnObject,
    /// Written by a newer plugin.
    #[error(
        "node annotation {NODE_REPORT} has version {0}, this program reads version {REPORT_VERSION}; run the same version of both"
    )]
    Version(u64),
    /// A device id that no node has, or one that stands twice.
    #[error(
        "node annotation {NODE_REPORT} lists device {0}, which is out of range or stands twice; restart the node's device plugin to have it written anew"
    )]
    Device(u8),
}

impl NodeReport {
    /// Reads the annotation's value.
    ///
    /// # Errors
    /// [`ReportError`] if it is not JSON of this version, or lists a device that no node has.
    pub fn parse(text: &str) -> Result<NodeReport, ReportError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(ReportError::Malformed)?;
        // serde would take a list for an object, and with it a version that is not looked at.
        if !value.is_object() {
            return Err(ReportError::NotAnObject);
        }
        // The version is read first, so that a newer report fails for its version and not for a new field.
        if let Some(v) = value.get("v").and_then(serde_json::Value::as_u64)
            && v != u64::from(REPORT_VERSION)
        {
            return Err(ReportError::Version(v));
        }
        let report: NodeReport = serde_json::from_value(value).map_err(ReportError::Malformed)?;
        let mut seen = DeviceSet::EMPTY;
        for device in &report.devices {
            let this = DeviceSet::single(device.id);
            if this.is_empty() || seen.intersects(this) {
                return Err(ReportError::Device(device.id));
            }
            seen = seen.union(this);
        }
        Ok(report)
    }

    /// The annotation's value.
    pub fn to_json(&self) -> String {
        // A report has no map keys or numbers that JSON cannot hold, so this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether it says the same as another one, whenever that was.
    pub fn says_the_same(&self, other: &NodeReport) -> bool {
        NodeReport { time: None, ..self.clone() } == NodeReport { time: None, ..other.clone() }
    }

    /// The devices that are listed as unhealthy.
    pub fn unhealthy(&self) -> DeviceSet {
        self.devices.iter().filter(|device| !device.health.is_served()).map(|device| device.id).collect()
    }

    /// The devices that the report lists, in any health.
    pub fn device_ids(&self) -> DeviceSet {
        self.devices.iter().map(|device| device.id).collect()
    }
}
