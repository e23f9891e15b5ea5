//! What runs on a machine: the processes that hold devices or cores, in `.fake-neuron/processes.json` below its root. Written by who
//! answers opens and ioctls, read by neuron-ls and neuron-monitor.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::MachineError;
use crate::machine::disk;

/// Folder below the root for what changes while a machine runs, as JSON files that are replaced in one step.
pub const STATE_FOLDER: &str = ".fake-neuron";

const PROCESSES: &str = ".fake-neuron/processes.json";

/// A process that uses the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeuronProcess {
    /// Process id.
    pub pid: u32,
    /// Its command line, words joined by spaces.
    pub command: String,
    /// Devices that it has open for use (not for free access), by id, in order.
    #[serde(default)]
    pub devices: Vec<u8>,
    /// Physical cores that it reserved, by their number on the host, in order.
    #[serde(default)]
    pub cores: Vec<u16>,
}

/// A file of the machine's state that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system refused.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// It is not what belongs there.
    #[error("{} is no list of processes: {reason}; remove it", .path.display())]
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// What was wrong in it, and where.
        reason: serde_json::Error,
    },
}

/// The processes that use the machine under `root`, in the order they were written; none where there is no file.
///
/// # Errors
/// The file cannot be read or is malformed.
pub fn processes(root: &Path) -> Result<Vec<NeuronProcess>, StateError> {
    let path = root.join(PROCESSES);
    match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|reason| StateError::Malformed { path, reason }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(reason) => Err(MachineError::Io { action: "read", path, reason }.into()),
    }
}

const REFERENCES: &str = "sys/module/neuron/refcnt";
const MODULES: &str = "proc/modules";

/// Replaces the list under `root` in one step, and with it what the kernel says of how often the driver is in use: in the module's
/// `refcnt` and its line of `/proc/modules`, where the machine has these. One use is a device that a process has open.
///
/// # Errors
/// The file system refuses.
pub fn write_processes(root: &Path, processes: &[NeuronProcess]) -> Result<(), StateError> {
    let path = root.join(PROCESSES);
    let text = serde_json::to_string(processes).map_err(|reason| StateError::Malformed { path, reason })?;
    let folder = root.join(STATE_FOLDER);
    fs::create_dir_all(&folder).map_err(MachineError::io("make", &folder))?;
    disk::replace(root, PROCESSES, &format!("{text}\n"), 0o644)?;
    Ok(write_uses(root, processes.iter().map(|process| process.devices.len()).sum())?)
}

fn write_uses(root: &Path, uses: usize) -> Result<(), MachineError> {
    if disk::is_there(&root.join(REFERENCES)) {
        disk::replace(root, REFERENCES, &format!("{uses}\n"), 0o444)?;
    }
    match fs::read_to_string(root.join(MODULES)) {
        Ok(modules) => disk::replace(root, MODULES, &with_uses(&modules, uses), 0o444),
        // The kernel has none, or the driver is unloaded.
        Err(_) => Ok(()),
    }
}

/// The lines of `/proc/modules`, the driver's with this many uses in its third column.
fn with_uses(modules: &str, uses: usize) -> String {
    let line = |line: &str| match line.splitn(4, ' ').collect::<Vec<_>>()[..] {
        ["neuron", size, _, rest] => format!("neuron {size} {uses} {rest}\n"),
        _ => format!("{line}\n"),
    };
    modules.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_drivers_line_says_how_often_it_is_used() {
        let modules = "neuron 585728 0 - Live 0x0000000000000000 (OE)\next4 1 2 - Live 0x0\n";
        assert_eq!(
            with_uses(modules, 3),
            "neuron 585728 3 - Live 0x0000000000000000 (OE)\next4 1 2 - Live 0x0\n"
        );
    }
}
