//! What a Node asks for: its label and annotations as one value. Pure. Read by [`super::Keeper`].

use std::collections::BTreeMap;
use std::fmt;

use neuron_core::names::INSTANCE_TYPE_LABEL;
use serde::{Deserialize, Serialize};

use crate::fault::{FaultError, FaultSpec, parse_faults};

/// Annotation: the hardware's instance type where it shall differ from the node's label.
const INSTANCE_TYPE: &str = "neuron-e2e/instance-type";
/// Annotation (or label): physical cores in one logical core, 1 or 2.
const LNC: &str = "neuron-e2e/lnc";
/// Annotation: the driver's line, such as `2.24`.
const DRIVER: &str = "neuron-e2e/driver";
/// Annotation: device id to state, as JSON.
const DEVICES: &str = "neuron-e2e/devices";
/// Annotation: path below the root to text, or to null for a file that is removed, as JSON.
const FILES: &str = "neuron-e2e/files";
/// Annotation: a list of faults ([`FaultSpec`]), as JSON.
const FAULTS: &str = "neuron-e2e/faults";
/// Annotation: any text, echoed once everything else was carried out.
const GENERATION: &str = "neuron-e2e/generation";

/// The hardware that a node is to have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DesiredHardware {
    /// Any text by which a waiter knows that this was applied; empty if none.
    pub generation: String,
    /// EC2 instance type or alias; `None`: no hardware.
    pub instance_type: Option<String>,
    /// 1 or 2; `None`: no setting is written, so readers use the type's default.
    pub lnc: Option<u8>,
    /// The driver's line; `None`: the type's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Devices that are not healthy, by id.
    pub devices: BTreeMap<u8, DeviceState>,
    /// Files that differ from the driver's, by path below the root: their text, or `None` for missing.
    pub files: BTreeMap<String, Option<String>>,
    /// What breaks, now or later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

/// The desired state of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceState {
    /// Nothing to report.
    #[default]
    Healthy,
    /// Its memory is broken (component `hbm`).
    Unhealthy,
    /// Its node and its sysfs folder are gone.
    Lost,
}

/// An annotation that is malformed.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationError {
    /// Not an LNC.
    #[error("annotation {LNC} is {0:?}: write 1 or 2")]
    Lnc(String),
    /// Not a map of devices.
    #[error(
        "annotation {DEVICES} makes no sense ({0}): write it like {{\"1\":\"lost\",\"2\":\"unhealthy\"}}"
    )]
    Devices(serde_json::Error),
    /// Not a map of files.
    #[error(
        "annotation {FILES} makes no sense ({0}): write it like {{\"dev/neuron3\":null,\"sys/module/neuron/version\":\"2\"}}"
    )]
    Files(serde_json::Error),
    /// Not a list of faults.
    #[error("annotation {FAULTS} makes no sense: {0}")]
    Faults(FaultError),
}

impl DesiredHardware {
    /// Reads a Node's metadata.
    ///
    /// # Errors
    /// The annotation that is malformed.
    pub fn of(
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Result<DesiredHardware, AnnotationError> {
        let given = |name: &str| annotations.get(name).filter(|text| !text.is_empty());
        let label = |name: &str| labels.get(name).filter(|text| !text.is_empty());
        let lnc = match given(LNC).or_else(|| label(LNC)).map(String::as_str) {
            None => None,
            Some("1") => Some(1),
            Some("2") => Some(2),
            Some(other) => return Err(AnnotationError::Lnc(other.to_owned())),
        };
        let mut devices: BTreeMap<u8, DeviceState> = match given(DEVICES) {
            Some(text) => serde_json::from_str(text).map_err(AnnotationError::Devices)?,
            None => BTreeMap::new(),
        };
        devices.retain(|_, state| *state != DeviceState::Healthy);
        let files = match given(FILES) {
            Some(text) => serde_json::from_str(text).map_err(AnnotationError::Files)?,
            None => BTreeMap::new(),
        };
        let faults = match given(FAULTS) {
            Some(text) => parse_faults(text).map_err(AnnotationError::Faults)?,
            None => Vec::new(),
        };
        let instance_type = given(INSTANCE_TYPE).or_else(|| label(INSTANCE_TYPE_LABEL)).cloned();
        Ok(DesiredHardware {
            generation: DesiredHardware::generation_of(annotations),
            instance_type,
            lnc,
            driver: given(DRIVER).cloned(),
            devices,
            files,
            faults,
        })
    }

    /// Only the text that is echoed.
    pub(crate) fn generation_of(annotations: &BTreeMap<String, String>) -> String {
        annotations.get(GENERATION).cloned().unwrap_or_default()
    }

    /// The state of one device.
    pub fn device(&self, id: u8) -> DeviceState {
        self.devices.get(&id).copied().unwrap_or_default()
    }

    /// Whether machine and changed files are the same, so that only devices' states and faults may differ.
    pub(crate) fn is_same_machine(&self, other: &DesiredHardware) -> bool {
        self.instance_type == other.instance_type
            && self.lnc == other.lnc
            && self.driver == other.driver
            && self.files == other.files
    }
}

impl fmt::Display for DesiredHardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(instance_type) = &self.instance_type else { return f.write_str("no hardware") };
        f.write_str(instance_type)?;
        if let Some(lnc) = self.lnc {
            write!(f, " at LNC {lnc}")?;
        }
        if let Some(driver) = &self.driver {
            write!(f, " with driver {driver}")?;
        }
        for (id, state) in &self.devices {
            write!(f, ", neuron{id} {}", if *state == DeviceState::Lost { "lost" } else { "unhealthy" })?;
        }
        for path in self.files.keys() {
            write!(f, ", {path} changed")?;
        }
        for spec in &self.faults {
            write!(f, ", {}", spec.fault)?;
        }
        Ok(())
    }
}
