//! The file by which a fake machine is known, with its description. Read before anything is changed or removed.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::MachineError;
use crate::machine::description::Description;
use crate::machine::disk;
use crate::machine::tree::MARKER;

/// The marker's content, as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Marker {
    /// False while files are being placed or removed: the next `up` or `down` finishes what an interrupted one left.
    pub(crate) complete: bool,
    /// Whether `up` made the root folder itself, so that `down` removes it.
    pub(crate) made_root: bool,
    /// How many of the folders above the root, from the inside out, `up` made for it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) made_parents: usize,
    // The key's name is older than the type's.
    #[serde(rename = "board")]
    pub(crate) description: Description,
}

impl Marker {
    /// The marker, if there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn read(root: &Path) -> Result<Option<Marker>, MachineError> {
        let path = root.join(MARKER);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(missing)
                if matches!(missing.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(reason) => return Err(MachineError::Io { action: "read", path, reason }),
        };
        serde_json::from_str(&text).map(Some).map_err(|reason| MachineError::Marker { path, reason })
    }

    /// Replaces the marker in one step.
    pub(crate) fn write(&self, root: &Path) -> Result<(), MachineError> {
        let path = root.join(MARKER);
        let text =
            serde_json::to_string_pretty(self).map_err(|reason| MachineError::Marker { path, reason })?;
        disk::replace(root, MARKER, &format!("{text}\n"), 0o644)
    }
}

/// Whether there are none of what is counted.
fn is_none(count: &usize) -> bool {
    *count == 0
}
