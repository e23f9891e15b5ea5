//! Assignments on disk: `device-plugins/kubelet_internal_checkpoint`. The form is our own; kubelet's is no contract.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::assignments::{Assignment, Assignments};
use super::devices::Devices;
use super::plugins::Plugins;

/// The file's contents.
#[derive(Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    assignments: Vec<Assignment>,
    resources: Vec<String>,
}

/// What outlives the kubelet.
pub(crate) fn json(devices: &Devices) -> serde_json::Result<Vec<u8>> {
    let assignments = devices.assignments.all().to_vec();
    serde_json::to_vec(&Checkpoint { assignments, resources: devices.plugins.resources() })
}

impl Checkpoint {
    /// What the kubelet before has left.
    pub(crate) fn restore(self, now: Timestamp) -> Devices {
        Devices {
            plugins: Plugins::restored(self.resources, now),
            assignments: Assignments::restored(self.assignments),
            ..Devices::default()
        }
    }
}
