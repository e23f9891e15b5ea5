//! What users are told about bound pods without asking: records that do not count, unknown holders, and devices that two pods have.
//! Pure; called by the loop of [`super`]. Why pods wait is told by [`super::waiting`].

use std::sync::Arc;

use neuron_core::holders::{Settled, Shared, Source};
use neuron_core::pod::BoundPod;
use runtime::reached;

use crate::index::{Index, NodeView};
use crate::note;

/// One event on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
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
/// kubelet gave two pods the same cores.
const DEVICES_SHARED: &str = "NeuronDevicesShared";

impl Explanation {
    /// An event on this pod.
    pub(super) fn of(pod: &BoundPod, reason: &'static str, note: String) -> Self {
        let [uid, namespace, name] = [&pod.uid, pod.namespace(), pod.name()].map(str::to_owned);
        Self { uid, namespace, name, node: None, reason, note }
    }

    /// One explanation per key is sent to a pod.
    pub(super) fn key(&self) -> u64 {
        note::key([self.reason, &self.note].into_iter())
    }
}

/// What there is to say about the records and holders of a node, in a fixed order.
pub(super) fn explain_node(index: &Index, node: &str) -> Vec<Explanation> {
    let mut all = Vec::new();
    let Some((view, settled)) = index.view(node).and_then(|view| Some((view, view.settled()?))) else {
        return all;
    };
    let pod = |uid: &str| index.pod(uid).map(|(pod, _)| pod);
    for ignored in &settled.ignored {
        let pod = pod(&ignored.uid).filter(|pod| !plugin_corrects(view, settled, pod));
        all.extend(pod.map(|pod| about_node(node, pod, RECORD_IGNORED, ignored.reason.clone())));
    }
    for holder in &settled.unknown {
        reached("extender: holder unknown");
        let note = format!(
            "It is not known which Neuron devices this pod holds. Node {node} takes no new Neuron pod until its \
             device plugin reports it or the pod is deleted."
        );
        all.extend(pod(&holder.uid).map(|pod| about_node(node, pod, HOLDER_UNKNOWN, note)));
    }
    for Shared { uid, pod: name, cores, with } in &settled.shared {
        reached("extender: devices shared");
        let note = format!(
            "Pod {name} and pod {with} were both given core(s) {cores} of node {node}, by its device plugin's report, and may disturb \
             each other: delete one of them."
        );
        all.extend(pod(uid).map(|pod| about_node(node, pod, DEVICES_SHARED, note)));
    }
    all
}

/// Whether the plugin will correct the record, as kubelet gave the pod something else than it says: nobody has to act.
fn plugin_corrects(view: &NodeView, settled: &Settled<Arc<BoundPod>>, pod: &BoundPod) -> bool {
    if !view.reads_record_of(pod) {
        reached("extender: record of a pod cannot count");
        return false;
    }
    let reported =
        settled.holdings.iter().any(|holding| *holding.uid() == *pod.uid && holding.source == Source::Report);
    if reported {
        reached("extender: record left to be corrected");
    } else {
        // Nothing else ignores a record that is one for this node.
        reached("extender: records overlap");
    }
    reported
}

fn about_node(node: &str, pod: &BoundPod, reason: &'static str, note: String) -> Explanation {
    Explanation { node: Some(node.to_owned()), ..Explanation::of(pod, reason, note) }
}
