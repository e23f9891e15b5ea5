//! The outcome document, version 1: what came of a scenario, equal on every kind of cluster (docs/architecture.md §6).
//! Made by [`crate::run::collect`], compared by tests, printed by the command line.

pub mod compare;
pub mod expectations;
pub mod redaction;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use neuron_workload::Report;

pub use compare::SchedulerTexts;

/// What came of one scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Version of the document's form: 1.
    pub version: u32,
    /// The pods by name. A pod that a step deleted is shown as it was just before.
    pub pods: BTreeMap<String, PodOutcome>,
}

/// What came of one pod. Nodes are n1, n2.. in scenario order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodOutcome {
    /// `Pending`, `Running`, `Succeeded`, `Failed`; `Refused` if the API server did not take the manifest.
    pub phase: String,
    /// A step deleted it; everything else is as it was just before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub deleted: bool,
    /// Why it failed: kubelet's reason and message, or the API server's refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The node it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The instance type of that node's label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_type: Option<String>,
    /// The pod's annotations. `NEURON_ALLOC_TIME` is redacted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// What each container, init containers included, printed about its devices, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Report>,
    /// Our own events on the pod, `Type Reason: note`, sorted, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// The last FailedScheduling message of a pod that is not bound, without nodes outside the scenario and without
    /// the preemption tail. What a bound pod was told before depends on how often it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_scheduling: Option<String>,
}

impl PodOutcome {
    /// Whether it holds hardware now.
    pub fn is_running(&self) -> bool {
        self.phase == "Running" && !self.deleted
    }

    /// Why it failed or is not scheduled; none if neither kubelet, API server nor scheduler has given a reason.
    pub fn refusal_text(&self) -> Option<&str> {
        self.failure.as_deref().or(self.failed_scheduling.as_deref())
    }
}

// Serde hands the field by reference.
fn is_false(value: &bool) -> bool {
    !value
}

impl Outcome {
    /// Within each group, gives the outcomes to the names in the order of their records: which of two equal pods got
    /// which set is kubelet's free choice. So is whether a record had to be corrected, and whether our programs spoke
    /// of it: their events are left out.
    pub fn order_interchangeable(&mut self, groups: &[Vec<String>]) {
        for group in groups {
            let mut outcomes: Vec<PodOutcome> =
                group.iter().filter_map(|name| self.pods.remove(name)).collect();
            outcomes.sort_by(|one, other| one.annotations.cmp(&other.annotations));
            outcomes.iter_mut().for_each(|outcome| outcome.events.clear());
            self.pods.extend(group.iter().cloned().zip(outcomes));
        }
    }

    /// The document as text: JSON, keys sorted, two spaces, a newline at the end.
    ///
    /// # Errors
    /// It cannot be written as JSON, which no document of a run was seen to be.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        // Through a Value, whose objects are sorted maps: field order must not depend on the struct's.
        Ok(serde_json::to_string_pretty(&serde_json::to_value(self)?)? + "\n")
    }
}
