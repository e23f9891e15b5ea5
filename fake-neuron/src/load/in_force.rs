//! Which load a machine is under: `.fake-neuron/load.json` below its root. Written while [`super::Load::run`] runs, read by
//! neuron-monitor.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::Profile;
use crate::MachineError;
use crate::machine::disk;
use crate::state::STATE_FOLDER;

const FILE: &str = ".fake-neuron/load.json";

/// A profile and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadInForce {
    /// What the devices do.
    pub profile: Profile,
    /// Seconds since 1970.
    pub started: u64,
}

#[derive(Deserialize)]
struct Written {
    profile: String,
    started: u64,
}

impl LoadInForce {
    /// A profile that begins now.
    pub fn begun(profile: Profile) -> LoadInForce {
        LoadInForce { profile, started: epoch() }
    }

    /// The one of the machine under `root`; idle, from now on, where none is written down or it cannot be read.
    pub fn read(root: &Path) -> LoadInForce {
        let text = fs::read_to_string(root.join(FILE)).ok();
        let written: Option<Written> = text.and_then(|text| serde_json::from_str(&text).ok());
        let found = written.and_then(|load| {
            Some(LoadInForce { profile: load.profile.parse().ok()?, started: load.started })
        });
        found.unwrap_or_else(|| LoadInForce::begun(Profile::Idle))
    }

    /// Writes it down for the machine under `root`, in one step.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn write(self, root: &Path) -> Result<(), MachineError> {
        let folder = root.join(STATE_FOLDER);
        fs::create_dir_all(&folder).map_err(MachineError::io("make", &folder))?;
        let written = serde_json::json!({"profile": self.profile.name(), "started": self.started});
        disk::replace(root, FILE, &format!("{written}\n"), 0o644)
    }

    /// Forgets the load of the machine under `root`; none is no error.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn remove(root: &Path) -> Result<(), MachineError> {
        disk::remove_file(&root.join(FILE))
    }

    /// Seconds since it began.
    pub fn second(self) -> u64 {
        epoch().saturating_sub(self.started)
    }
}

fn epoch() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
