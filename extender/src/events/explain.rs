//! What users are told about pods without asking: records that do not count, unknown holders, and pods that wait in vain.
//! Pure; called by the loop of [`super`].
//!
//! Nodes that kube-scheduler's own plugins drop never reach the extender (docs/reference/kubernetes.md §1), so a pod that no node
//! type can serve would otherwise only read `Insufficient aws.amazon.com/neuron`.

use std::collections::BTreeSet;

use neuron_core::holders::{Settled, Source};
use neuron_core::placement::{EqualNodes, Refusal};
use neuron_core::pod::BoundPod;
use runtime::reached;

use crate::index::{Index, NodeRefusal, NodeView};

/// One event on a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Explanation {
    /// The pod's UID.
    pub(crate) uid: String,
    /// The pod's namespace.
    pub(crate) namespace: String,
    /// The pod's name.
    pub(crate) name: String,
    /// The node whose holders it is about, which may set themselves right; none if it is about a pod that waits.
    pub(crate) node: Option<String>,
    /// The event's reason, in CamelCase.
    pub(crate) reason: &'static str,
    /// The text, whole sentences.
    pub(crate) note: String,
}

/// A record does not count.
const RECORD_IGNORED: &str = "NeuronRecordIgnored";
/// Nothing says what the pod holds.
const HOLDER_UNKNOWN: &str = "NeuronHolderUnknown";
/// No node type of the cluster can ever serve the pod.
const UNSUPPORTED: &str = "NeuronRequestUnsupported";
/// Enough is free, but not linked.
const NO_LINKED_SET: &str = "NeuronNoLinkedSet";

impl Explanation {
    /// One explanation per key and pod is sent. The key is the note, or the reason where the note counts what is free, so
    /// that a new count is not sent.
    pub(crate) fn sent_once_by(&self) -> String {
        if self.reason == NO_LINKED_SET { self.reason.to_owned() } else { self.note.clone() }
    }
}

/// What there is to say about the records and holders of these nodes, in a fixed order.
pub(crate) fn explain_nodes(index: &Index, nodes: &BTreeSet<String>) -> Vec<Explanation> {
    let mut all = Vec::new();
    for node in nodes {
        let Some(view) = index.view(node) else { continue };
        let Some(settled) = view.settled() else { continue };
        for ignored in &settled.ignored {
            let pod = index.pod(&ignored.uid).map(|(pod, _)| pod);
            all.extend(
                pod.filter(|pod| !plugin_corrects(view, settled, pod))
                    .map(|pod| about_node(node, pod, RECORD_IGNORED, ignored.reason.clone())),
            );
        }
        for holder in &settled.unknown {
            reached("extender: holder unknown");
            let note = format!(
                "It is not known which Neuron devices this pod holds. Node {node} takes no new Neuron pod until its \
                 device plugin reports it or the pod is deleted."
            );
            let pod = index.pod(&holder.uid).map(|(pod, _)| pod);
            all.extend(pod.map(|pod| about_node(node, pod, HOLDER_UNKNOWN, note)));
        }
    }
    all
}

/// Why a pod that kube-scheduler found no node for waits in vain, if it still waits. Every node is checked.
pub(crate) fn explain_pending_pod(index: &Index, uid: &str) -> Option<Explanation> {
    let (pod, None) = index.pod(uid)? else { return None };
    refused_by_every_node(index, pod).map(|(reason, note)| explanation(pod, reason, note))
}

/// Whether the plugin will correct the record, as kubelet gave the pod something else than it says: nobody has to act.
fn plugin_corrects(view: &NodeView, settled: &Settled, pod: &BoundPod) -> bool {
    if !view.reads_record_of(pod) {
        reached("extender: record of a pod cannot count");
        return false;
    }
    let reported =
        settled.holdings.iter().any(|holding| holding.uid == pod.uid && holding.source == Source::Report);
    if reported {
        reached("extender: record left to be corrected");
    } else {
        // Nothing else ignores a record that is one for this node.
        reached("extender: records overlap");
    }
    reported
}

/// Why every node refuses the pod, if the reason lies in the devices.
fn refused_by_every_node(index: &Index, pod: &BoundPod) -> Option<(&'static str, String)> {
    let request = match &pod.request {
        Ok(request) if request.is_empty() => return None,
        Ok(request) => request,
        Err(error) => return Some((UNSUPPORTED, error.to_string())),
    };
    let models = match index.device_models_of(&pod.uid) {
        Ok(models) => models,
        Err(error) => return Some((UNSUPPORTED, error.to_string())),
    };
    // Where no node is of these models, what one node is told says it.
    let is_wanted = |view: &&NodeView| models.as_ref().is_none_or(|models| view.is_of(models).is_ok());
    let some_are = index.views().any(|view| view.is_neuron() && is_wanted(&view));
    if let (Some(models), false) = (&models, some_are) {
        let why = index.views().filter(|view| view.is_neuron()).find_map(|view| view.is_of(models).err());
        return why.map(|why| (UNSUPPORTED, why.to_string()));
    }
    let nodes = index.views().filter(|view| view.is_neuron()).filter(is_wanted);
    let mut equal_nodes = EqualNodes::new(request);
    let refusals: Option<Vec<(&str, NodeRefusal)>> =
        nodes.map(|view| Some((view.name.as_str(), view.fits(&mut equal_nodes).err()?))).collect();
    let refusals = refusals?;
    if !refusals.is_empty() && refusals.iter().all(|(_, refusal)| refusal.is_permanent()) {
        let mut different: Vec<&NodeRefusal> = refusals.iter().map(|(_, refusal)| refusal).collect();
        different.dedup();
        let texts: BTreeSet<String> = different.into_iter().map(NodeRefusal::to_string).collect();
        return Some((UNSUPPORTED, texts.into_iter().collect::<Vec<_>>().join(" ")));
    }
    let unlinked: BTreeSet<String> = refusals
        .iter()
        .filter(|(_, refusal)| matches!(refusal, NodeRefusal::Placement(Refusal::NotLinked { .. })))
        .map(|(node, refusal)| format!("{node}: {refusal}"))
        .collect();
    (!unlinked.is_empty()).then(|| (NO_LINKED_SET, unlinked.into_iter().collect::<Vec<_>>().join("; ")))
}

fn about_node(node: &str, pod: &BoundPod, reason: &'static str, note: String) -> Explanation {
    Explanation { node: Some(node.to_owned()), ..explanation(pod, reason, note) }
}

fn explanation(pod: &BoundPod, reason: &'static str, note: String) -> Explanation {
    let BoundPod { uid, namespace, name, .. } = pod.clone();
    Explanation { uid, namespace, name, node: None, reason, note }
}
