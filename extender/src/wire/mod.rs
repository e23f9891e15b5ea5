//! The extender protocol's bodies (docs/reference/kubernetes.md §1), both directions. Called by the routes.
//!
//! kube-scheduler's Go types carry no JSON tags: keys are Go field names and nil arrives as `null`. Older and
//! third-party callers send lower case, so both are read; exactly the Go names are answered. Nodes and their names are
//! never copied: they are read where they stand in the body, and the answer borrows them from there. Of a pod only what is asked about it
//! is kept, and of nothing more than there may be: callers are strangers, who need no certificate over plain HTTP.

mod bounded;
mod json;
mod node;
mod pod;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

pub(crate) use self::bounded::NODES;
pub(crate) use self::json::scores_to_json;
pub(crate) use self::node::RawNode;
pub(crate) use self::pod::{PodMetadata, PodToPlace};

/// What kube-scheduler asks `/filter` and `/prioritize`.
#[derive(Debug, Deserialize)]
pub(crate) struct FilterArgs<'a> {
    #[serde(rename = "Pod", alias = "pod")]
    pub(crate) pod: Option<PodToPlace>,
    /// Full nodes, sent by schedulers with `nodeCacheCapable: false`.
    #[serde(borrow, rename = "Nodes", alias = "nodes")]
    pub(crate) nodes: Option<NodeList<'a>>,
    /// Node names, sent by schedulers with `nodeCacheCapable: true`.
    #[serde(borrow, default, deserialize_with = "bounded::list")]
    #[serde(rename = "NodeNames", alias = "nodeNames", alias = "nodenames")]
    pub(crate) node_names: Option<Vec<NodeName<'a>>>,
}

/// A node's name in the body.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct NodeName<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl fmt::Display for NodeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A list of full nodes.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct NodeList<'a> {
    /// Go sends `null` for none.
    #[serde(borrow, default, deserialize_with = "bounded::list", alias = "Items")]
    pub(crate) items: Option<Vec<RawNode<'a>>>,
}

/// Why a node does not take a pod. Nodes with the same reason share its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Why(pub(crate) Arc<str>);

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Why {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// What `/filter` answers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct FilterResult<'a> {
    /// The nodes that fit, where full nodes were given.
    pub(crate) nodes: Option<FittingNodes<'a>>,
    /// The names of the nodes that fit, where names were given.
    pub(crate) node_names: Option<Vec<NodeName<'a>>>,
    /// Why a node does not fit now.
    pub(crate) failed_nodes: BTreeMap<NodeName<'a>, Why>,
    /// Why a node can never serve the pod; preemption skips these.
    pub(crate) failed_and_unresolvable_nodes: BTreeMap<NodeName<'a>, Why>,
    /// Why the call as a whole failed; empty on success.
    pub(crate) error: String,
}

impl FilterResult<'_> {
    /// A call that failed as a whole.
    pub(crate) fn failure(error: impl ToString) -> Self {
        Self { error: error.to_string(), ..Self::default() }
    }

    /// How many nodes can take the pod.
    pub(crate) fn fitting(&self) -> usize {
        match (&self.node_names, &self.nodes) {
            (Some(names), _) => names.len(),
            (None, Some(nodes)) => nodes.items.len(),
            (None, None) => 0,
        }
    }
}

impl FilterResult<'_> {
    /// The names of the nodes that can take the pod; of full nodes they are read again.
    pub(crate) fn fitting_names(&self) -> Vec<NodeName<'_>> {
        fn name<'n>(node: &&'n RawValue) -> Option<NodeName<'n>> {
            let node: RawNode<'n> = serde_json::from_str(node.get()).ok()?;
            Some(node.name)
        }
        match (&self.node_names, &self.nodes) {
            (Some(names), _) => names.clone(),
            (None, Some(nodes)) => nodes.items.iter().filter_map(name).collect(),
            (None, None) => Vec::new(),
        }
    }
}

/// The score of one node in the answer of `/prioritize`, which is a bare array of them.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct NodeScore<'a> {
    /// The node.
    pub(crate) host: NodeName<'a>,
    /// 0 to 10; more is better.
    pub(crate) score: u8,
}

/// The full nodes that fit, as a Kubernetes NodeList.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FittingNodes<'a> {
    /// A NodeList has list metadata, even when it says nothing.
    pub(crate) metadata: BTreeMap<String, String>,
    /// The nodes as they came in.
    pub(crate) items: Vec<&'a RawValue>,
}

/// What kube-scheduler asks `/preempt`.
#[derive(Debug, Deserialize)]
pub(crate) struct PreemptArgs<'a> {
    #[serde(rename = "Pod", alias = "pod")]
    pub(crate) pod: Option<PodToPlace>,
    /// By node, sent by schedulers with `nodeCacheCapable: false`.
    #[serde(borrow, default, deserialize_with = "bounded::victims")]
    #[serde(rename = "NodeNameToVictims", alias = "nodeNameToVictims", alias = "nodenametovictims")]
    pub(crate) victims: Option<BTreeMap<NodeName<'a>, Victims<'a>>>,
    /// By node, sent by schedulers with `nodeCacheCapable: true`.
    #[serde(borrow, default, deserialize_with = "bounded::victims")]
    #[serde(
        rename = "NodeNameToMetaVictims",
        alias = "nodeNameToMetaVictims",
        alias = "nodenametometavictims"
    )]
    pub(crate) meta_victims: Option<BTreeMap<NodeName<'a>, Option<MetaVictims<'a>>>>,
}

/// Whole pods that would be ended on one node.
#[derive(Debug, Deserialize)]
pub(crate) struct Victims<'a> {
    #[serde(borrow, default, deserialize_with = "bounded::list", rename = "Pods", alias = "pods")]
    pods: Option<Vec<Victim<'a>>>,
    #[serde(default, rename = "NumPDBViolations", alias = "numPDBViolations", alias = "numpdbviolations")]
    violations: i64,
}

/// The part of such a pod that preempt reads.
#[derive(Debug, Deserialize)]
struct Victim<'a> {
    #[serde(borrow)]
    metadata: VictimMetadata<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct VictimMetadata<'a> {
    #[serde(borrow)]
    uid: Cow<'a, str>,
}

/// Pods that would be ended on one node.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct MetaVictims<'a> {
    #[serde(borrow, default, deserialize_with = "bounded::list", rename = "Pods", alias = "pods")]
    pub(crate) pods: Option<Vec<MetaPod<'a>>>,
    /// How many of their PodDisruptionBudgets would be violated, as kube-scheduler has counted.
    #[serde(default, rename = "NumPDBViolations", alias = "numPDBViolations", alias = "numpdbviolations")]
    violations: i64,
}

/// A pod by its UID.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct MetaPod<'a> {
    #[serde(borrow, rename = "UID", alias = "uid")]
    pub(crate) uid: Cow<'a, str>,
}

impl<'a> Victims<'a> {
    /// The same by their UIDs.
    pub(crate) fn meta(self) -> MetaVictims<'a> {
        let pods = self.pods.unwrap_or_default().into_iter();
        let pods = pods.map(|pod| MetaPod { uid: pod.metadata.uid }).collect();
        MetaVictims { pods: Some(pods), violations: self.violations }
    }
}

/// What `/preempt` answers.
#[derive(Debug, Serialize)]
pub(crate) struct PreemptResult<'a> {
    /// The nodes that are left, by name.
    #[serde(rename = "NodeNameToMetaVictims")]
    pub(crate) meta_victims: BTreeMap<NodeName<'a>, MetaVictims<'a>>,
}

/// What kube-scheduler asks `/bind`.
#[derive(Debug, Deserialize)]
pub(crate) struct BindArgs {
    #[serde(rename = "PodName", alias = "podName", alias = "podname")]
    pub(crate) pod_name: String,
    #[serde(rename = "PodNamespace", alias = "podNamespace", alias = "podnamespace")]
    pub(crate) pod_namespace: String,
    #[serde(rename = "PodUID", alias = "podUID", alias = "podUid", alias = "poduid")]
    pub(crate) pod_uid: String,
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
    /// Longer than any that the call can need.
    #[error("the body of /{verb} is longer than {limit} KiB; send no more nodes or pods in one call")]
    TooLong {
        verb: &'static str,
        /// In KiB.
        limit: usize,
    },
    /// Not all of it came in time.
    #[error("the body of /{verb} was not received within {limit:?}; send it at once")]
    TooSlow { verb: &'static str, limit: Duration },
    /// Others had all the room.
    #[error("there was no room for the body of /{verb} for {waited:?}, for other calls' bodies; try again")]
    NoRoom { verb: &'static str, waited: Duration },
    /// Others had all the room that its answer takes beyond the body's.
    #[error("there was no room for the answer of /{verb}, for other calls' bodies; try again")]
    NoRoomForAnswer { verb: &'static str },
    /// Cut off on the way.
    #[error("the body of /{verb} could not be received: {reason}")]
    NotReceived {
        verb: &'static str,
        /// What the server says.
        reason: String,
    },
    /// Not the JSON that the call takes.
    #[error("the body of /{verb} is not what kube-scheduler sends: {source}")]
    NotUnderstood {
        verb: &'static str,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
    /// A field that the call cannot do without.
    #[error("the body of /{verb} has no {field}; send one")]
    Missing { verb: &'static str, field: &'static str },
}
