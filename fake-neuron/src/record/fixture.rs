//! The fixture's file: JSON, version 1. Read by [`super::replay`], written by `fake-neuron record`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RecordError;

/// What was captured of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fixture {
    /// 1.
    pub version: u8,
    /// DMI's product name, such as `trn2.48xlarge`.
    pub instance_type: String,
    /// What `/sys/module/neuron/version` says, such as `2.24.7.0`; empty if it could not be read.
    pub driver_version: String,
    /// Whether serial numbers and ids are the host's own.
    pub identity_kept: bool,
    /// What could not be captured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// Every file, link and node, by path.
    pub(crate) entries: Vec<Captured>,
}

/// What could not be captured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Skipped {
    /// Below the host's root.
    pub path: String,
    /// Such as `no answer within 1s`.
    pub why: String,
}

/// One file, link or node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Captured {
    /// Below the host's root.
    pub(crate) path: String,
    #[serde(flatten)]
    pub(crate) what: What,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum What {
    /// A file: its permissions in octal digits, such as `0444`, and its text.
    File { mode: String, content: String },
    /// A link, relative to its folder.
    Link { link: String },
    /// A node of the driver: its minor number.
    Node { node: u8 },
}

impl Fixture {
    /// Reads a fixture's file.
    ///
    /// # Errors
    /// The file cannot be read or is no fixture.
    pub fn read(path: &Path) -> Result<Fixture, RecordError> {
        let path_of = || path.to_owned();
        let text =
            fs::read_to_string(path).map_err(|reason| RecordError::Unreadable { path: path_of(), reason })?;
        serde_json::from_str(&text).map_err(|reason| RecordError::Malformed { path: path_of(), reason })
    }

    /// Writes the fixture into a new file.
    ///
    /// # Errors
    /// The file is there already or cannot be written; what was written of it is removed then.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        let mut file = match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => file,
            Err(reason) if reason.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RecordError::Exists { path: path.to_owned() });
            }
            Err(reason) => return Err(RecordError::Unwritable { path: path.to_owned(), reason }),
        };
        let written = file.write_all(self.to_json().as_bytes());
        written.map_err(|reason| {
            let _ = fs::remove_file(path);
            RecordError::Unwritable { path: path.to_owned(), reason }
        })
    }

    /// One line for each entry, so that two fixtures can be compared as text.
    pub(crate) fn to_json(&self) -> String {
        let text = |value: serde_json::Result<String>| value.unwrap_or_default();
        let head = Fixture { entries: Vec::new(), ..self.clone() };
        let head = text(serde_json::to_string_pretty(&head));
        let lines: Vec<String> =
            self.entries.iter().map(|entry| format!("    {}", text(serde_json::to_string(entry)))).collect();
        let list = format!("\"entries\": [\n{}\n  ]\n}}\n", lines.join(",\n"));
        head.replace("\"entries\": []\n}", &list)
    }
}
