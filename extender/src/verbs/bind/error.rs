//! Why a pod was not bound. The texts end in the pod's FailedScheduling event.

use neuron_core::request::RequestError;

use crate::index::{Denial, NotListed};

/// Why a pod was not bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindError {
    /// Too early.
    #[error(transparent)]
    NotListed(#[from] NotListed),
    /// The pod was deleted.
    #[error("the pod does not exist any more; nothing was bound")]
    Gone,
    /// Another pod has its name now.
    #[error("the pod was recreated: its UID is {found}, not {asked}; nothing was bound")]
    Replaced {
        /// The UID to bind.
        asked: String,
        /// The UID that the name has now.
        found: String,
    },
    /// The pod is in no watch yet and could not be read either.
    #[error("the pod could not be read: {0}; nothing was bound, try again")]
    NotRead(String),
    /// Bound to another node.
    #[error("the pod is already bound to node {node}")]
    Elsewhere {
        /// That node.
        node: String,
    },
    /// Bound to this node by someone else.
    #[error(
        "the pod is already bound to this node, without an allocation record that counts; recreate the pod"
    )]
    BoundWithoutRecord,
    /// What the pod asks for cannot be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No such node.
    #[error("the Neuron scheduler knows no node {node}; kube-scheduler tries again")]
    NoNode {
        /// Its name.
        node: String,
    },
    /// The node does not take it, or not any more.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// The API server did not carry out the Binding.
    #[error("the API server refused the binding: {0}")]
    Refused(String),
    /// Nobody knows whether the Binding was or will be carried out.
    #[error(
        "it is not clear whether the pod was bound: {why}; its devices stay reserved for it until that is clear"
    )]
    Unclear {
        /// What happened.
        why: String,
    },
    /// The extender is shutting down.
    #[error("the extender was stopped while binding; try again")]
    Stopped,
}
