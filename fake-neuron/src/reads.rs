//! What programs read of a machine, and how often. Counted only under `exec`, whose supervisor sees the calls; a tree that is
//! read directly has nobody who counts. Written by the supervisor, read by tests.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::MachineError;
use crate::machine::disk::{self, STATE};

/// Below the root.
const FILE: &str = ".fake-neuron/reads.json";

/// Opens by path, as in `sys/module/neuron/version`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reads(BTreeMap<String, u64>);

impl Reads {
    /// Counts one open of a path below the root.
    pub fn count(&mut self, path: &str) {
        *self.0.entry(path.trim_start_matches('/').to_owned()).or_default() += 1;
    }

    /// How often the path was opened.
    pub fn of(&self, path: &str) -> u64 {
        self.0.get(path.trim_start_matches('/')).copied().unwrap_or_default()
    }

    /// Every path that was opened, sorted, with how often.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(path, count)| (path.as_str(), *count))
    }

    /// What was counted for the machine under `root`; nothing where nobody counted.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn read(root: &Path) -> Result<Reads, MachineError> {
        let path = root.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => serde_json::from_str(&text).map_err(|reason| MachineError::Marker { path, reason }),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(Reads::default()),
            Err(reason) => Err(MachineError::Io { action: "read", path, reason }),
        }
    }

    /// Leaves the counts where [`Reads::read`] finds them, in one step.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn write(&self, root: &Path) -> Result<(), MachineError> {
        let folder = root.join(STATE);
        fs::create_dir_all(&folder).map_err(MachineError::io("make", &folder))?;
        let text = serde_json::to_string_pretty(self)
            .map_err(|reason| MachineError::Marker { path: root.join(FILE), reason })?;
        disk::replace(root, FILE, &format!("{text}\n"), 0o644)
    }
}
