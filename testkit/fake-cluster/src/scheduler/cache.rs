//! The nodes and the pods on them, including pods that are assumed onto a node before the API server shows them there.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::amounts::{Amounts, pod_request};

/// Nodes and assigned pods. A pod may be known before its node.
#[derive(Default)]
pub(crate) struct Cache {
    nodes: BTreeMap<String, NodeState>,
    assigned: BTreeMap<String, Assigned>,
}

#[derive(Default)]
struct NodeState {
    node: Option<Arc<Node>>,
    pods: BTreeMap<String, PodOnNode>,
    used: Amounts,
    /// What cycles see of it, until it changes: most nodes do not between two of them.
    info: Option<Arc<NodeInfo>>,
}

struct Assigned {
    node: String,
    assumed: bool,
}

/// One node as a scheduling cycle sees it (kube-scheduler's NodeInfo).
pub(crate) struct NodeInfo {
    pub(crate) name: String,
    pub(crate) node: Arc<Node>,
    pub(crate) allocatable: Amounts,
    pub(crate) used: Amounts,
    /// The pods on the node.
    pub(crate) pods: Vec<PodOnNode>,
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub(crate) struct PodOnNode {
    pub(crate) pod: Arc<Pod>,
    pub(crate) request: Amounts,
}

impl PodOnNode {
    pub(crate) fn of(pod: &Arc<Pod>) -> Self {
        Self { request: pod.spec.as_ref().map(pod_request).unwrap_or_default(), pod: Arc::clone(pod) }
    }
}

impl Cache {
    pub(crate) fn set_node(&mut self, name: &str, node: Arc<Node>) {
        let state = self.nodes.entry(name.to_owned()).or_default();
        state.node = Some(node);
        state.info = None;
    }

    /// Removes the node; pods that the API server still shows on it are kept.
    pub(crate) fn remove_node(&mut self, name: &str) {
        if let Some(state) = self.nodes.get_mut(name) {
            state.node = None;
            state.info = None;
        }
    }

    /// Puts the pod on the node where the API server shows it, which confirms or replaces an assumption.
    pub(crate) fn set_pod(&mut self, uid: &str, pod: &Arc<Pod>, node: &str) {
        self.remove_pod(uid);
        self.insert(uid, pod, node, false);
    }

    /// Counts the pod on `node` before it is bound.
    pub(crate) fn assume(&mut self, uid: &str, pod: &Arc<Pod>, node: &str) {
        self.remove_pod(uid);
        self.insert(uid, pod, node, true);
    }

    /// Takes an assumption back; a pod that the API server shows on a node is kept.
    pub(crate) fn forget(&mut self, uid: &str) {
        if self.is_assumed(uid) {
            self.remove_pod(uid);
        }
    }

    pub(crate) fn is_assumed(&self, uid: &str) -> bool {
        self.assigned.get(uid).is_some_and(|assigned| assigned.assumed)
    }

    /// Whether the API server has shown the pod on a node.
    pub(crate) fn is_bound(&self, uid: &str) -> bool {
        self.assigned.get(uid).is_some_and(|assigned| !assigned.assumed)
    }

    /// Removes the pod; `true` if it was on a node.
    pub(crate) fn remove_pod(&mut self, uid: &str) -> bool {
        let Some(assigned) = self.assigned.remove(uid) else { return false };
        if let Some(state) = self.nodes.get_mut(&assigned.node)
            && let Some(pod) = state.pods.remove(uid)
        {
            state.used.subtract(&pod.request);
            state.info = None;
        }
        true
    }

    /// All nodes by name.
    pub(crate) fn snapshot(&mut self) -> Vec<Arc<NodeInfo>> {
        self.nodes.iter_mut().filter_map(|(name, state)| state.info(name)).collect()
    }

    fn insert(&mut self, uid: &str, pod: &Arc<Pod>, node: &str, assumed: bool) {
        let pod = PodOnNode::of(pod);
        let state = self.nodes.entry(node.to_owned()).or_default();
        state.used.add(&pod.request);
        state.info = None;
        state.pods.insert(uid.to_owned(), pod);
        self.assigned.insert(uid.to_owned(), Assigned { node: node.to_owned(), assumed });
    }
}

impl NodeState {
    /// The node as a cycle sees it; none while only its pods are known.
    fn info(&mut self, name: &str) -> Option<Arc<NodeInfo>> {
        let node = self.node.clone()?;
        let make = || {
            let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
            Arc::new(NodeInfo {
                name: name.to_owned(),
                allocatable: Amounts::of(allocatable),
                used: self.used.clone(),
                pods: self.pods.values().cloned().collect(),
                node,
            })
        };
        Some(Arc::clone(self.info.get_or_insert_with(make)))
    }
}
