//! What a pod's or a node's object shows, as far as anybody waits for it. Asked by [`crate::run`] and by real clusters.

use k8s_openapi::api::core::v1::{Node, Pod};
use neuron_core::names;
use neuron_core::report::NodeReport;

/// The node's report, if there is one that can be read.
pub fn report(node: &Node) -> Option<NodeReport> {
    let text = node.metadata.annotations.as_ref()?.get(names::NODE_REPORT)?;
    NodeReport::parse(text).ok()
}

/// The pod's phase; `Pending` before kubelet says one.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether a scheduler has bound the pod.
pub fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

/// Whether kube-scheduler has given a reason why the pod is not scheduled, be it only that its scheduling gates are closed.
pub fn is_refused(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
}
