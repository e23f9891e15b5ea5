//! What can go wrong with a fixture. Every text names the object and the way out.

use std::io;
use std::path::PathBuf;

use crate::MachineError;

/// Why a host cannot be captured, or a fixture not be read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The host has no Neuron device.
    #[error("no Neuron device under {}: there is no {}", .root.display(), "sys/devices/virtual/neuron_device with neuronN in it; is the driver loaded?")]
    NoDevices {
        /// The host's root as the caller gave it.
        root: PathBuf,
    },
    /// The host's type cannot be read.
    #[error("the instance type of {} cannot be read from sys/class/dmi/id/product_name: {reason}", .root.display())]
    NoType {
        /// The host's root as the caller gave it.
        root: PathBuf,
        /// The file system's answer.
        reason: io::Error,
    },
    /// More files than any known driver has.
    #[error("more than {limit} files under {}: that is no tree of the Neuron driver", .root.display())]
    TooMany {
        /// The host's root as the caller gave it.
        root: PathBuf,
        /// The most that are taken.
        limit: usize,
    },
    /// A fixture that cannot be read.
    #[error("fixture {} cannot be read: {reason}", .path.display())]
    Unreadable {
        /// The file, as the caller gave it.
        path: PathBuf,
        /// The file system's answer.
        reason: io::Error,
    },
    /// A file that is no fixture.
    #[error("fixture {} is none: {reason}; make one with `fake-neuron record`", .path.display())]
    Malformed {
        /// The file, as the caller gave it.
        path: PathBuf,
        /// What is wrong in it.
        reason: serde_json::Error,
    },
    /// A fixture whose tree makes no machine.
    #[error("the fixture of {instance_type} makes no machine: {problem}")]
    NoMachine {
        /// The fixture's instance type.
        instance_type: String,
        /// What is missing or wrong.
        problem: String,
    },
    /// The fixture would replace a file.
    #[error("{} is there already: give --output another file, or remove it", .path.display())]
    Exists {
        /// The file that was to be written.
        path: PathBuf,
    },
    /// The fixture cannot be written.
    #[error("cannot write {}: {reason}", .path.display())]
    Unwritable {
        /// The file that was to be written.
        path: PathBuf,
        /// The file system's answer.
        reason: io::Error,
    },
    /// The machine cannot be made.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

impl RecordError {
    /// Whether the caller gave a fixture that cannot be used. Exit code 2 on a command line.
    pub fn is_misuse(&self) -> bool {
        matches!(
            self,
            RecordError::Unreadable { .. } | RecordError::Malformed { .. } | RecordError::NoMachine { .. }
        )
    }
}
