//! What programs read of a machine, and how often. Counted only under `exec`, whose supervisor sees every open; a tree that is read
//! directly has nobody who counts. Counted by [`crate::ioctl`], written by [`crate::exec`], read by tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::MachineError;

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

    /// Reads what `exec --reads FILE` has written.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn read(file: &Path) -> Result<Reads, MachineError> {
        let text = fs::read_to_string(file).map_err(MachineError::io("read", file))?;
        serde_json::from_str(&text).map_err(|reason| MachineError::Marker { path: file.to_owned(), reason })
    }

    /// The file's text: a JSON object, paths sorted.
    pub fn to_json(&self) -> String {
        // Strings and numbers always serialise.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }
}
