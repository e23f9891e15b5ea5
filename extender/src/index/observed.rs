//! What the watches show of pods and nodes: the parts that decide. Made by the watches, taken in by the index.

use neuron_core::pod::BoundPod;

/// A pod. The index gets those that ask for Neuron hardware or carry a record.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPod {
    /// The node it is bound to.
    pub(crate) node: Option<String>,
    /// Whether kube-scheduler found no node for it.
    pub(crate) unschedulable: bool,
    pub(crate) pod: BoundPod,
}

/// A node as the watch shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedNode {
    pub(crate) name: String,
    /// The value of its instance type label.
    pub(crate) instance_type: Option<String>,
    /// The value of its report annotation.
    pub(crate) report: Option<String>,
}

/// What a watch shows.
#[derive(Debug)]
pub(crate) enum Change<T> {
    ListBegins,
    /// The list is complete: what is not in it is gone.
    Listed(Vec<T>),
    /// Added or modified.
    Applied(T),
    /// The pod of this UID or the node of this name is gone, or nothing about it decides any more.
    Gone(String),
    /// What happens until the next complete list is not known.
    Disconnected,
}
