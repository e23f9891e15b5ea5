//! What can go wrong with a fault. Every text names the object and the way out.

use std::io;
use std::path::{Path, PathBuf};

use super::Fault;
use crate::MachineError;

/// Why a fault cannot be carried out, lifted or read.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// A list of faults that is none.
    #[error(
        "{0}; write faults as a JSON list like [{{\"fault\": \"device-lost\", \"device\": 3, \"after\": \"5s\"}}]"
    )]
    Malformed(serde_json::Error),
    /// A file that cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// What is wrong with a file of faults.
    #[error("file of faults {}: {reason}", .path.display())]
    File {
        /// The file, as the caller gave it.
        path: PathBuf,
        /// What is wrong with it.
        reason: Box<FaultError>,
    },
    /// A probability that is none.
    #[error("probability {0} is not valid: give 0 to 1, such as 0.25")]
    Probability(f64),
    /// A duration of nothing.
    #[error("{fault} would be over as soon as it struck: give `for` a time such as 10s, or leave it out")]
    LastsNothing {
        /// What was asked for.
        fault: Fault,
    },
    /// A duration for what happens once.
    #[error("{fault} happens once and is over: leave `for` out")]
    LastsOnce {
        /// What was asked for.
        fault: Fault,
    },
    /// A hung read of nothing, or of two things.
    #[error("hung-read needs a path or a device, and not both: give one")]
    HungReadOfWhat,
    /// A path that is no file of the machine.
    #[error("{path:?} is no file of the machine under {}: give one such as sys/module/neuron/version", .root.display())]
    NoFile {
        /// The machine's root.
        root: PathBuf,
        /// The path as the caller gave it.
        path: String,
    },
    /// A counter that the driver does not have.
    #[error("device {device} of {instance_type} has no counter {counter}: {known}")]
    NoCounter {
        /// The machine's instance type.
        instance_type: String,
        /// Device id, 0 to 63.
        device: u8,
        /// The counter as the caller named it.
        counter: String,
        /// Which it has, as the end of the sentence.
        known: String,
    },
    /// A count above what the counter can hold.
    #[error("{counter} cannot show {count}: it has 16 bits, so give 0 to 65535")]
    Count {
        /// The counter's name.
        counter: String,
        /// The number asked for.
        count: u32,
    },
    /// A core that the machine does not have.
    #[error("{instance_type} has no core {core}: its physical cores are 0 to {last}")]
    NoCore {
        /// The machine's instance type.
        instance_type: String,
        /// The core as the caller named it.
        core: u16,
        /// The highest one.
        last: u16,
    },
    /// Two devices without a link.
    #[error(
        "the driver shows no link between devices {device} and {other} of {instance_type}: device {device} is linked to {links}"
    )]
    NoLink {
        /// The machine's instance type.
        instance_type: String,
        /// Device id, 0 to 63.
        device: u8,
        /// The device at the other end.
        other: u8,
        /// What the first is linked to, or `none`.
        links: String,
    },
    /// Another fault says the opposite.
    #[error(
        "{fault} contradicts fault {id}, {earlier}: {because}; lift that one first with `fake-neuron fault clear {id}`"
    )]
    Contradicts {
        /// What was asked for.
        fault: Fault,
        /// Why there cannot be both.
        because: String,
        /// The earlier fault's id.
        id: u32,
        /// The earlier fault.
        earlier: Fault,
    },
    /// No fault of this id.
    #[error("there is no fault {id}: `fake-neuron fault list` shows them")]
    NoFault {
        /// The id asked for.
        id: u32,
    },
    /// The file of faults in force is malformed.
    #[error("{} makes no sense: {reason}; make the machine anew", .path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        reason: serde_json::Error,
    },
    /// The machine, or a device of it, is not there, or its files cannot be changed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The file system refused.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The file system's answer.
        reason: io::Error,
    },
}

impl FaultError {
    /// The file system's refusal of an action, as a verb, on a path.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FaultError {
        let path = path.to_owned();
        move |reason| FaultError::Io { action, path, reason }
    }

    /// Whether the caller asked for something that cannot be, rather than that doing it failed. Exit code 2 on a command line.
    pub fn is_misuse(&self) -> bool {
        !matches!(
            self,
            FaultError::State { .. }
                | FaultError::Io { .. }
                | FaultError::Machine(
                    MachineError::Io { .. }
                        | MachineError::NoMachine { .. }
                        | MachineError::Marker { .. }
                        | MachineError::NotAFolder { .. }
                )
        )
    }
}
