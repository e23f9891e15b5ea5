//! `<root>/.fake-neuron/faults.json`: the faults that are in force or still to come. Written by [`crate::Machine`], read by
//! what answers ioctls and by `fake-neuron fault list`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Fault, FaultError, FaultSpec};
use crate::machine::disk;

/// Below the root.
const FILE: &str = ".fake-neuron/faults.json";

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Faults {
    /// The id of the last fault, so that ids are never used again.
    pub last_id: u32,
    /// Number of lines that were written to the fake kernel log.
    pub kernel_lines: u64,
    /// In the order in which they were asked for.
    pub faults: Vec<Standing>,
}

/// A fault that is in force or still to come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// By which it is cleared, from 1.
    pub id: u32,
    /// Whether it has struck.
    pub state: State,
    /// When it struck or will strike, in milliseconds since 1970.
    pub at: u64,
    /// What was asked for.
    #[serde(flatten)]
    pub spec: FaultSpec,
    /// What stands at other places than it should, or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) changed: Vec<Changed>,
}

/// How far a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It will strike.
    Pending,
    /// It has struck.
    InForce,
}

/// A path that a fault has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Changed {
    /// Below the root.
    pub(crate) path: String,
    /// Whether something was there, which then stands in the folder of what was taken away.
    pub(crate) was_there: bool,
    /// Whether the fault has put something there.
    pub(crate) put: bool,
}

impl Standing {
    /// Without the files that it has changed, which are of no use to a reader.
    pub fn without_changes(&self) -> Standing {
        Standing { changed: Vec::new(), ..self.clone() }
    }
}

impl Faults {
    /// The faults of the machine under `root`; none where the file is missing.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn read(root: &Path) -> Result<Faults, FaultError> {
        let path = root.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|reason| FaultError::State { path, reason }),
            Err(missing)
                if matches!(missing.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Ok(Faults::default())
            }
            Err(reason) => Err(FaultError::Io { action: "read", path, reason }),
        }
    }

    /// Replaces the file in one step.
    pub(crate) fn write(&self, root: &Path) -> Result<(), FaultError> {
        let path = root.join(FILE);
        let text = serde_json::to_string_pretty(self).map_err(|reason| FaultError::State { path, reason })?;
        disk::replace(root, FILE, &format!("{text}\n"), 0o644)?;
        Ok(())
    }

    /// The faults that have struck.
    pub fn in_force(&self) -> impl Iterator<Item = &Fault> {
        let struck = self.faults.iter().filter(|standing| standing.state == State::InForce);
        struck.map(|standing| &standing.spec.fault)
    }

    /// Whether the driver is unloaded.
    pub fn driver_is_unloaded(&self) -> bool {
        self.in_force().any(|fault| *fault == Fault::DriverUnloaded {})
    }

    /// Whether this device (0 to 63) is lost.
    pub fn is_lost(&self, device: u8) -> bool {
        self.in_force().any(|fault| *fault == Fault::DeviceLost { device })
    }

    /// Whether this device (0 to 63) is being reset.
    pub fn is_in_reset(&self, device: u8) -> bool {
        self.in_force().any(|fault| *fault == Fault::Reset { device })
    }

    /// The process that holds this physical core, counted over the host from 0.
    pub fn holder_of(&self, core: u16) -> Option<u32> {
        self.in_force().find_map(|fault| match fault {
            Fault::CoreHeld { core: held, pid } if *held == core => Some(*pid),
            _ => None,
        })
    }
}
