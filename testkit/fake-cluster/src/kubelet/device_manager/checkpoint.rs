//! Assignments on disk: `device-plugins/kubelet_internal_checkpoint`. The form is our own; kubelet's is no contract.

use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::assignments::{Assignment, Assignments};
use super::devices::Devices;
use super::plugins::Plugins;
use crate::kubelet::files;

#[derive(Serialize, Deserialize)]
struct Checkpoint {
    assignments: Vec<Assignment>,
    resources: Vec<String>,
}

/// Writes what outlives the kubelet.
pub(crate) fn save(path: &Path, devices: &Devices) -> io::Result<()> {
    let assignments = devices.assignments.all().to_vec();
    files::write(path, &Checkpoint { assignments, resources: devices.plugins.resources() })
}

/// What the kubelet before has left; empty when there was none.
pub(crate) fn load(path: &Path, now: Timestamp) -> io::Result<Devices> {
    let checkpoint: Option<Checkpoint> = files::read(path)?;
    Ok(checkpoint.map_or_else(Devices::default, |saved| Devices {
        plugins: Plugins::restored(saved.resources, now),
        assignments: Assignments::restored(saved.assignments),
        ..Devices::default()
    }))
}
