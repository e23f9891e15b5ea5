//! What the containers of a run have printed of themselves, and when they ran. Filled by [`super::collect`] at each look.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_workload::Report;

use crate::invariants::exclusivity::History;

/// Everything that was read so far. A container prints once, and cannot be asked while its kubelet is stopped.
#[derive(Debug, Default)]
pub struct Reports {
    printed: Mutex<BTreeMap<ContainerRun, Report>>,
    /// When the containers ran, and on what.
    pub(crate) history: History,
}

/// One run of a container: its pod's UID, its name, how often it was restarted before.
pub(super) type ContainerRun = (String, String, i32);

impl Reports {
    fn printed(&self) -> MutexGuard<'_, BTreeMap<ContainerRun, Report>> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What that run of a container has printed, if it was read already.
    pub(super) fn get(&self, run: &ContainerRun) -> Option<Report> {
        self.printed().get(run).cloned()
    }

    /// What the last run of each container of the pod has printed.
    pub(super) fn of_pod(&self, uid: &str) -> BTreeMap<String, Report> {
        let printed = self.printed();
        let runs = printed.iter().filter(|((of, _, _), _)| of == uid);
        // The last one stays, for they come in the order of restarts.
        runs.map(|((_, container, _), report)| (container.clone(), report.clone())).collect()
    }

    /// Adds what a run of a container has printed.
    pub(super) fn add(&self, run: ContainerRun, report: &Report) {
        self.printed().insert(run, report.clone());
    }
}
