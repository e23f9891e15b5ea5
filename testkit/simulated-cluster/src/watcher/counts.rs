//! What became of pods, counted by their writes.

use std::sync::Arc;

use fake_cluster::api::Observed;
use fake_cluster::api::text;

/// What became of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) created: u64,
    pub(crate) placed: u64,
    pub(crate) refused: u64,
    pub(crate) ended: u64,
}

impl Counts {
    pub(super) fn pod_changes(&mut self, write: &Observed<'_>) {
        let phase = |object: Option<&Arc<serde_json::Value>>| {
            object.map(|object| text(object, "/status/phase").to_owned()).unwrap_or_default()
        };
        let is_bound = |object: Option<&Arc<serde_json::Value>>| {
            object.is_some_and(|object| !text(object, "/spec/nodeName").is_empty())
        };
        self.created += u64::from(write.before.is_none());
        self.placed += u64::from(!is_bound(write.before) && is_bound(write.after));
        let (before, after) = (phase(write.before), phase(write.after));
        let has_ended = |phase: &str| matches!(phase, "Succeeded" | "Failed");
        if !has_ended(&before) && (has_ended(&after) || write.after.is_none()) {
            let reason = write.after.map(|after| text(after, "/status/reason")).unwrap_or_default();
            if after == "Failed" && is_refusal(reason) { self.refused += 1 } else { self.ended += 1 }
        }
    }
}

/// Whether a pod failed its admission, by its status' reason.
pub(super) fn is_refusal(reason: &str) -> bool {
    reason == "UnexpectedAdmissionError" || reason.starts_with("OutOf")
}
