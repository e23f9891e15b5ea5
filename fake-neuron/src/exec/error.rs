//! Why a program could not be run on a fake machine. Every text names the way out. Used by all of [`crate::exec`].

use std::io;
use std::path::{Path, PathBuf};

use crate::MachineError;
use crate::fault::FaultError;
use crate::ioctl::SupervisorError;
use crate::record::RecordError;

/// Why `fake-neuron exec` could not do its own part; the program was not started, or has been ended.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The machine cannot be made.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The fixture makes no machine.
    #[error(transparent)]
    Fixture(#[from] RecordError),
    /// A fault that the machine cannot have, or that could not be carried out.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The program's calls cannot be answered any longer.
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    /// The program cannot be put under a supervisor.
    #[error("the program's calls cannot be answered: {reason}; {way_out}")]
    Unsupervised {
        /// The kernel's answer.
        reason: io::Error,
        /// What refuses, and what to do.
        way_out: &'static str,
    },
    /// The root is not there, and a folder made for it would stay behind.
    #[error("root {} does not exist: make an empty folder, exec leaves none behind", .root.display())]
    NoRoot {
        /// The root as asked for.
        root: PathBuf,
    },
    /// The root is one of the folders that the machine is shown in.
    #[error("root {} is a folder in which the machine is shown: give one of its own, such as /tmp/node1", .root.display())]
    RootInTheWay {
        /// The root as asked for.
        root: PathBuf,
    },
    /// The kernel or a rule of this host refuses namespaces.
    #[error("namespaces are not permitted here: {step}: {reason}; {way_out}")]
    Namespaces {
        /// What was tried.
        step: &'static str,
        /// The kernel's answer.
        reason: io::Error,
        /// The setting that refuses, and what to do.
        way_out: String,
    },
    /// A folder of the host that the machine is shown in.
    #[error("{} is missing on this host, and the machine cannot be shown without it: {way_out}", .path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
        /// What to do.
        way_out: &'static str,
    },
    /// Anything else that the kernel refused.
    #[error("cannot {action}: {reason}")]
    Refused {
        /// What was tried, as a verb with its object.
        action: String,
        /// The kernel's answer.
        reason: io::Error,
    },
}

impl ExecError {
    /// Makes the error of a refused call about a path, for `map_err`.
    pub(super) fn at<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> ExecError {
        let action = format!("{action} {}", path.display());
        move |reason| ExecError::Refused { action, reason: reason.into() }
    }

    /// Makes the error of a refused call, for `map_err`.
    pub(super) fn refused<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> ExecError {
        move |reason| ExecError::Refused { action: action.to_owned(), reason: reason.into() }
    }
}
