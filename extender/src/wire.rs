//! The extender protocol's bodies (facts/kubernetes.md §1), both directions. Called by the routes.
//!
//! kube-scheduler's Go types carry no JSON tags: keys are Go field names and nil arrives as `null`. Older and
//! third-party callers send lower case, so both are read; exactly the Go names are answered.

use std::collections::BTreeMap;

use neuron_core::pod::PodSpec;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// What kube-scheduler asks `/filter`.
#[derive(Debug, Deserialize)]
pub(crate) struct FilterArgs {
    /// The pod to place.
    #[serde(rename = "Pod", alias = "pod")]
    pub(crate) pod: Option<PodToPlace>,
    /// Full nodes, sent by schedulers with `nodeCacheCapable: false`.
    #[serde(rename = "Nodes", alias = "nodes")]
    pub(crate) nodes: Option<NodeList>,
    /// Node names, sent by schedulers with `nodeCacheCapable: true`.
    #[serde(rename = "NodeNames", alias = "nodeNames", alias = "nodenames")]
    pub(crate) node_names: Option<Vec<String>>,
}

/// The parts of the pod that filter reads.
#[derive(Debug, Deserialize)]
pub(crate) struct PodToPlace {
    /// Name, namespace and UID.
    #[serde(default)]
    pub(crate) metadata: PodMetadata,
    /// What its containers ask for.
    pub(crate) spec: PodSpec,
}

/// The parts of a pod's metadata that filter reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodMetadata {
    /// The pod's name.
    pub(crate) name: String,
    /// The pod's namespace.
    pub(crate) namespace: String,
    /// The pod's UID.
    pub(crate) uid: String,
}

/// A list of full nodes.
#[derive(Debug, Deserialize)]
pub(crate) struct NodeList {
    /// The nodes; Go sends `null` for none.
    #[serde(alias = "Items")]
    pub(crate) items: Option<Vec<RawNode>>,
}

/// A node as it came in: handed back untouched, only its name is read.
#[derive(Debug)]
pub(crate) struct RawNode {
    /// The node's name.
    pub(crate) name: String,
    /// The node's JSON.
    pub(crate) json: Box<RawValue>,
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Named {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        struct Metadata {
            name: String,
        }
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let named: Named = serde_json::from_str(json.get()).map_err(|error| {
            serde::de::Error::custom(format_args!("a node without a readable name: {error}"))
        })?;
        Ok(Self { name: named.metadata.name, json })
    }
}

/// What `/filter` answers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct FilterResult {
    /// The nodes that fit, where full nodes were asked.
    pub(crate) nodes: Option<FittingNodes>,
    /// The names of the nodes that fit, where names were asked.
    pub(crate) node_names: Option<Vec<String>>,
    /// Why a node does not fit now.
    pub(crate) failed_nodes: BTreeMap<String, String>,
    /// Why a node can never serve the pod; preemption skips these.
    pub(crate) failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// Why the call as a whole failed; empty on success.
    pub(crate) error: String,
}

impl FilterResult {
    /// A call that failed as a whole.
    pub(crate) fn failure(error: impl ToString) -> Self {
        Self { error: error.to_string(), ..Self::default() }
    }
}

/// The full nodes that fit, as a Kubernetes NodeList.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FittingNodes {
    /// A NodeList has list metadata, even when it says nothing.
    pub(crate) metadata: BTreeMap<String, String>,
    /// The nodes as they came in.
    pub(crate) items: Vec<Box<RawValue>>,
}

/// What kube-scheduler asks `/bind`.
#[derive(Debug, Deserialize)]
pub(crate) struct BindArgs {
    /// The pod's name.
    #[serde(rename = "PodName", alias = "podName", alias = "podname")]
    pub(crate) pod_name: String,
    /// The pod's namespace.
    #[serde(rename = "PodNamespace", alias = "podNamespace", alias = "podnamespace")]
    pub(crate) pod_namespace: String,
    /// The pod's UID.
    #[serde(rename = "PodUID", alias = "podUID", alias = "podUid", alias = "poduid")]
    pub(crate) pod_uid: String,
    /// The node to bind it to.
    #[serde(rename = "Node", alias = "node")]
    pub(crate) node: String,
}

/// What `/bind` answers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct BindResult {
    /// Why the pod was not bound; empty on success.
    pub(crate) error: String,
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Longer than allowed, or cut off on the way.
    #[error("the body of /{verb} could not be received: {why}")]
    NotReceived {
        /// The call.
        verb: &'static str,
        /// What the server says.
        why: String,
    },
    /// Not the JSON that the call takes.
    #[error("the body of /{verb} is not what kube-scheduler sends: {source}")]
    NotUnderstood {
        /// The call.
        verb: &'static str,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// Nothing to decide about.
    #[error("the body of /{verb} has no {field}; send one")]
    Missing {
        /// The call.
        verb: &'static str,
        /// The field's name.
        field: &'static str,
    },
}
