//! Pods for which others were ended, and the nodes that are kept for them meanwhile. Set by `preempt` and `watch`, read by cycles.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::priority::priority;
use crate::amounts::{Amounts, pod_request};

/// What is kept on each node, with the number of pods.
pub(crate) type Kept = BTreeMap<String, (Amounts, usize)>;

/// Nominated pods by UID.
#[derive(Clone, Default)]
pub(crate) struct Nominations {
    pods: BTreeMap<String, Nominated>,
}

#[derive(Clone)]
struct Nominated {
    node: String,
    priority: i32,
    request: Amounts,
}

impl Nominations {
    /// The node is kept for the pod.
    pub(crate) fn set(&mut self, pod: &Pod, node: &str) {
        let request = pod.spec.as_ref().map(pod_request).unwrap_or_default();
        let nominated = Nominated { node: node.to_owned(), priority: priority(pod), request };
        self.pods.insert(pod.metadata.uid.clone().unwrap_or_default(), nominated);
    }

    /// Nothing is kept for the pod any more. Whether there was.
    pub(crate) fn remove(&mut self, uid: &str) -> bool {
        self.pods.remove(uid).is_some()
    }

    /// UIDs of the pods that the node is kept for and that are less important.
    pub(crate) fn below(&self, priority: i32, node: &str) -> Vec<String> {
        let below = self.pods.iter().filter(|(_, pod)| pod.node == node && pod.priority < priority);
        below.map(|(uid, _)| uid.clone()).collect()
    }

    /// What is kept for pods that are at least as important as `pod`.
    pub(crate) fn before(&self, pod: &Pod) -> Kept {
        let mut kept = Kept::new();
        let own = pod.metadata.uid.as_deref().unwrap_or_default();
        for (_, nominated) in
            self.pods.iter().filter(|(uid, other)| *uid != own && other.priority >= priority(pod))
        {
            let (amounts, pods) = kept.entry(nominated.node.clone()).or_default();
            amounts.add(&nominated.request);
            *pods += 1;
        }
        kept
    }
}
