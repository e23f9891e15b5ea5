//! What the watches show of pods and nodes: the parts that decide. Made by the watches, taken in by the index.

use neuron_core::pod::BoundPod;

/// A pod; the index is shown those that have to do with Neuron hardware.
#[derive(Clone, Debug)]
pub(crate) struct SeenPod {
    /// The node it is bound to.
    pub(crate) node: Option<String>,
    /// Whether kube-scheduler found no node for it.
    pub(crate) unschedulable: bool,
    /// The rest of it.
    pub(crate) pod: BoundPod,
}

/// The parts of a node that decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenNode {
    /// Its name.
    pub(crate) name: String,
    /// The value of its instance type label.
    pub(crate) instance_type: Option<String>,
    /// The value of its report annotation.
    pub(crate) report: Option<String>,
}

/// What a watch shows.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// A list of everything begins.
    ListBegins,
    /// The list is complete: what is not in it is gone.
    Listed(Vec<T>),
    /// Added or modified.
    Applied(T),
    /// Nothing is shown until the next list: what has happened since is not known.
    Cut,
    /// Gone, or nothing that decides any more: the pod's UID or the node's name.
    Gone(String),
}
