//! What is wrong with texts as they are said, whatever becomes free: those of pods that wait, and those of events. Called at every
//! write.

use std::sync::Arc;

use fake_cluster::api::{Observed, text};
use serde_json::Value;

use super::{State, Watcher};
use crate::observer::{Truth, Violation, why_it_waits};
use crate::suite::{NodeTruth, Units, WaitingPod};

/// The reason of the events by which kube-scheduler says why a pod waits.
const FAILED_SCHEDULING: &str = "FailedScheduling";

impl Watcher {
    /// What is wrong with the text by which this write says why a pod waits, whatever becomes free. While a node's labels or report
    /// are edited by hand texts may be about a machine that is not there.
    pub(super) fn told(&self, state: &mut State, write: &Observed<'_>) -> Option<Violation> {
        let after = write.after?;
        let message = why_it_waits(after);
        let is_news = write.before.is_none_or(|before| why_it_waits(before) != message);
        if message.is_empty() || !is_news || !text(after, "/spec/nodeName").is_empty() {
            return None;
        }
        if self.nodes.keys().any(|node| state.truth.is_edited(node)) {
            state.judged("texts as they were said while nodes were edited", 1);
            return None;
        }
        state.judged("texts as they were said", 1);
        let cause = self.judge_told(&state.truth, after, message)?;
        let name = format!("{}/{}", write.namespace, write.name);
        let text = format!("{name} is told: {message}");
        Some(Violation { invariant: "texts", cause, text, pods: vec![name] })
    }

    /// As [`told`](Self::told), of what the suite's programs say by an event. kube-scheduler's say what the pod's status says.
    pub(super) fn told_by_event(&self, state: &mut State, write: &Observed<'_>) -> Option<Violation> {
        let event = write.after.filter(|event| text(event, "/reason") != FAILED_SCHEDULING)?;
        let pod = state.truth.pods.get(text(event, "/involvedObject/uid"))?;
        let message = text(event, "/message");
        if write.before.is_some_and(|before| text(before, "/message") == message) {
            return None;
        }
        let (pod, name) = (Arc::clone(&pod.object), pod.name());
        if self.nodes.keys().any(|node| state.truth.is_edited(node)) {
            state.judged("events about pods while nodes were edited", 1);
            return None;
        }
        state.judged("events about pods", 1);
        let cause = self.judge_told(&state.truth, &pod, message)?;
        let text = format!("an event about {name} says: {message}");
        Some(Violation { invariant: "texts", cause, text, pods: vec![name] })
    }

    /// What is wrong with a text about a pod that waits, whatever becomes free.
    fn judge_told(&self, truth: &Truth, pod: &Value, message: &str) -> Option<String> {
        let kinds = self.kinds.iter().filter_map(|name| self.nodes.get_key_value(name));
        let nodes: Vec<NodeTruth<'_>> = kinds
            .map(|(name, node)| NodeTruth { name, node, held: Units::new(), broken: Units::new() })
            .collect();
        self.suite.judge_told(&WaitingPod { truth, nodes: &nodes, pod, message })
    }
}
