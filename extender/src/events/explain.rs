//! What users are told about pods without asking: records that do not count, holders nobody knows, and pods
//! that wait in vain. Pure; called by the events task.
//!
//! Nodes that kube-scheduler's own plugins drop never reach the extender (facts/kubernetes.md §1), so a pod
//! that no node type can serve would otherwise only read `Insufficient aws.amazon.com/neuron`.

use std::collections::BTreeSet;

use neuron_core::holders::{Settled, Source};
use neuron_core::placement::Refusal;
use neuron_core::pod::BoundPod;

use crate::index::{Denial, Index, NodeView};

/// One event on a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Explanation {
    /// The pod's UID.
    pub(crate) uid: String,
    /// The pod's namespace.
    pub(crate) namespace: String,
    /// The pod's name.
    pub(crate) name: String,
    /// The node whose books it is about, which may set themselves right; none if it is about a pod that waits.
    pub(crate) node: Option<String>,
    /// Why the event is sent, in one word.
    pub(crate) reason: &'static str,
    /// The text, whole sentences.
    pub(crate) note: String,
}

/// A record does not count.
pub(crate) const RECORD_IGNORED: &str = "NeuronRecordIgnored";
/// Nobody knows what the pod holds.
pub(crate) const HOLDER_UNKNOWN: &str = "NeuronHolderUnknown";
/// No node type of the cluster can ever serve the pod.
pub(crate) const UNSUPPORTED: &str = "NeuronRequestUnsupported";
/// Enough is free, but not linked.
pub(crate) const NO_LINKED_SET: &str = "NeuronNoLinkedSet";

impl Explanation {
    /// What is said once for each pod: most texts, but of those that count what is free only the first.
    pub(crate) fn said_once(&self) -> String {
        if self.reason == NO_LINKED_SET { self.reason.to_owned() } else { self.note.clone() }
    }
}

/// What there is to say about the records and holders of these nodes, in a fixed order.
pub(crate) fn about_nodes(index: &Index, nodes: &BTreeSet<String>) -> Vec<Explanation> {
    let mut all = Vec::new();
    for node in nodes {
        let Some(view) = index.view(node) else { continue };
        let Some(settled) = view.settled() else { continue };
        for ignored in &settled.ignored {
            let pod = index.pod(&ignored.uid).map(|(pod, _)| pod);
            all.extend(
                pod.filter(|pod| !plugin_corrects(view, settled, pod))
                    .map(|pod| about(node, pod, RECORD_IGNORED, ignored.why.clone())),
            );
        }
        for holder in &settled.unknown {
            let note = format!(
                "It is not known which Neuron devices this pod holds. Node {node} takes no new Neuron pod until its \
                 device plugin reports it or the pod is deleted."
            );
            let pod = index.pod(&holder.uid).map(|(pod, _)| pod);
            all.extend(pod.map(|pod| about(node, pod, HOLDER_UNKNOWN, note)));
        }
    }
    all
}

/// Why a pod that kube-scheduler found no node for waits in vain, if it still waits. Every node is judged.
pub(crate) fn about_waiting(index: &Index, uid: &str) -> Option<Explanation> {
    let (pod, None) = index.pod(uid)? else { return None };
    why_in_vain(index, pod).map(|(reason, note)| explanation(pod, reason, note))
}

/// Where kubelet gave a pod something else than its record says, the plugin corrects the record: nobody has to act.
fn plugin_corrects(view: &NodeView, settled: &Settled, pod: &BoundPod) -> bool {
    let reported =
        settled.holdings.iter().any(|holding| holding.uid == pod.uid && holding.source == Source::Report);
    reported && view.reads_record_of(pod)
}

/// Why no node takes a pod that kube-scheduler found no node for, if the reason lies in the devices.
fn why_in_vain(index: &Index, pod: &BoundPod) -> Option<(&'static str, String)> {
    let request = match &pod.request {
        Ok(request) if request.is_empty() => return None,
        Ok(request) => request,
        Err(error) => return Some((UNSUPPORTED, error.to_string())),
    };
    let nodes = index.views().filter(|view| view.is_neuron());
    let denials: Option<Vec<(&str, Denial)>> =
        nodes.map(|view| Some((view.name.as_str(), view.admits(request).err()?))).collect();
    let denials = denials?;
    if !denials.is_empty() && denials.iter().all(|(_, denial)| denial.is_permanent()) {
        let texts: BTreeSet<String> = denials.iter().map(|(_, denial)| denial.to_string()).collect();
        return Some((UNSUPPORTED, texts.into_iter().collect::<Vec<_>>().join(" ")));
    }
    let unlinked: BTreeSet<String> = denials
        .iter()
        .filter(|(_, denial)| matches!(denial, Denial::Refused(Refusal::NotLinked { .. })))
        .map(|(node, denial)| format!("{node}: {denial}"))
        .collect();
    (!unlinked.is_empty()).then(|| (NO_LINKED_SET, unlinked.into_iter().collect::<Vec<_>>().join("; ")))
}

fn about(node: &str, pod: &BoundPod, reason: &'static str, note: String) -> Explanation {
    Explanation { node: Some(node.to_owned()), ..explanation(pod, reason, note) }
}

fn explanation(pod: &BoundPod, reason: &'static str, note: String) -> Explanation {
    let BoundPod { uid, namespace, name, .. } = pod.clone();
    Explanation { uid, namespace, name, node: None, reason, note }
}
