//! Who holds what on one node, from its bound pods and its report. The extender and the device plugin
//! both ask here, so that they cannot disagree.

use std::sync::Arc;

use crate::catalog::Catalog;
use crate::ids::CoreSet;
use crate::occupancy::Occupancy;
use crate::pod::BoundPod;
use crate::record::{Allocation, RecordError};
use crate::report::NodeReport;
use crate::request::RequestError;
use crate::topology::{Policy, Topology, TopologyError};

/// What is known about one node.
#[derive(Clone, Debug)]
pub struct NodeFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape.
    pub topology: Arc<Topology>,
    /// Its plugin's report, if there is one.
    pub report: Option<&'a NodeReport>,
    /// The pods bound to it.
    pub pods: &'a [BoundPod],
}

/// Who holds what on one node.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Held cores and unhealthy devices.
    pub occupancy: Occupancy,
    /// The pods that hold a known set.
    pub holdings: Vec<Holding>,
    /// Records that do not count, and why.
    pub ignored: Vec<Ignored>,
    /// Pods that hold a set nobody knows: the node takes no new Neuron pod while there is one.
    pub unknown: Vec<UnknownHolder>,
}

/// A pod that holds a known set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The pod's UID.
    pub uid: String,
    /// The pod as `namespace/name`.
    pub pod: String,
    /// Its record; none if only the report says what it holds.
    pub allocation: Option<Allocation>,
    /// Every core it holds under either name.
    pub cores: CoreSet,
    /// Where this is known from.
    pub source: Source,
}

/// Where a holding is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The pod's record.
    Record,
    /// The pod's record, and the node's report agrees.
    ConfirmedRecord,
    /// The node's report alone.
    Report,
}

/// A record that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The pod's UID.
    pub uid: String,
    /// The pod as `namespace/name`.
    pub pod: String,
    /// Why, for the pod's events.
    pub why: String,
}

/// A pod that holds a set nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownHolder {
    /// The pod's UID.
    pub uid: String,
    /// The pod as `namespace/name`.
    pub pod: String,
}

/// Why a record does not count, looked at by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignore {
    /// Not readable.
    #[error(transparent)]
    Malformed(#[from] RecordError),
    /// The pod's own request is not readable.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Why a node's shape is not known, so that it takes no Neuron pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeRefusal {
    /// The label and the report name different types.
    #[error("Node label says instance type {label}, its device plugin found {report}; correct the label")]
    Disagree {
        /// What the label says.
        label: String,
        /// What the report says.
        report: String,
    },
    /// The shape cannot be worked out.
    #[error(transparent)]
    Shape(#[from] TopologyError),
}

/// Settles who holds what.
#[allow(clippy::todo)]
pub fn settle(_facts: &NodeFacts) -> Settled {
    todo!()
}

/// A node's shape: the type from its label, else from its report; LNC from the report, else the type's default.
#[allow(clippy::todo)]
pub fn topology_of(
    _label: Option<&str>,
    _report: Option<&NodeReport>,
    _catalog: &Catalog,
    _policy: Policy,
) -> Result<Topology, NodeRefusal> {
    todo!()
}

/// A pod's record looked at by itself; `None` if it has none.
#[allow(clippy::todo)]
pub fn record_counts(
    _pod: &BoundPod,
    _node: &str,
    _topology: &Topology,
) -> Result<Option<Allocation>, Ignore> {
    todo!()
}
