//! Why a pod was not bound. The texts end in the pod's FailedScheduling event.

use neuron_core::request::RequestError;

use super::MOST_AT_ONCE;
use crate::index::{Indeterminate, NodeRefusal};
use crate::leadership::NotLeading;
use crate::verbs::admitted::ADMITTED_FOR;

/// Why a pod was not bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BindError {
    /// The call came before the first complete lists.
    #[error(transparent)]
    Indeterminate(#[from] Indeterminate),
    /// The pod was deleted.
    #[error("the pod does not exist any more; nothing was bound")]
    Gone,
    /// Another pod has its name now.
    #[error("the pod was recreated: its UID is {found}, not {requested}; nothing was bound")]
    Replaced {
        /// The UID to bind.
        requested: String,
        /// The UID that the name has now.
        found: String,
    },
    /// The pod is in no watch yet and could not be read either.
    #[error("the pod could not be read: {0}; nothing was bound, try again")]
    NotRead(String),
    /// The pod was bound to another node before.
    #[error("the pod is already bound to node {node}")]
    BoundElsewhere {
        /// The node that it is bound to.
        node: String,
    },
    /// The pod was bound to this node by someone else.
    #[error(
        "the pod is already bound to this node, without an allocation record that counts; recreate the pod"
    )]
    BoundWithoutRecord,
    /// What the pod asks for cannot be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The watch shows no such node.
    #[error("the Neuron scheduler knows no node {node}; kube-scheduler tries again")]
    UnknownNode {
        /// The node that kube-scheduler chose.
        node: String,
    },
    /// The node does not take the pod, or not any more.
    #[error(transparent)]
    Refused(#[from] NodeRefusal),
    /// The node was another one each time that a place had been found.
    #[error(
        "node {node} changed during each of {searches} searches for a place for the pod; kube-scheduler tries again"
    )]
    NodeChanges {
        /// The node to bind it to.
        node: String,
        /// How often a place was searched for.
        searches: u32,
    },
    /// The API server did not carry out the Binding.
    #[error("the API server refused the binding: {0}")]
    BindingRefused(String),
    /// The Binding would have been cut off.
    #[error("too little time was left for the API server to answer a Binding; nothing was bound, try again")]
    NoTimeLeft,
    /// Nobody knows whether the Binding was or will be carried out.
    #[error(
        "it is not clear whether the pod was bound: {reason}; its devices stay reserved for it until that is clear"
    )]
    OutcomeUnknown {
        /// Why that is not known.
        reason: String,
    },
    /// As many binds are under way as there may be.
    #[error(
        "{MOST_AT_ONCE} other binds are under way, more than one scheduler begins; kube-scheduler tries again"
    )]
    TooMany,
    /// The extender is shutting down.
    #[error("the extender was stopped while binding; try again")]
    Stopped,
    /// The bind failed by a mistake of the extender.
    #[error(
        "the extender failed while binding, and its log says where; what it had reserved is kept until it is clear whether the pod was bound; please report it"
    )]
    Panicked,
    /// Another replica places pods now.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// Filter did not say that the node takes the pod.
    #[error(
        "filter has not admitted the pod on node {node} within the last {} minutes; kube-scheduler has to ask filter before bind, \
         see filterVerb in its configuration",
        ADMITTED_FOR.as_secs() / 60
    )]
    NotAdmitted {
        /// The node to bind it to.
        node: String,
    },
}

impl BindError {
    /// What metrics call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            BindError::Refused(_) | BindError::UnknownNode { .. } => "refused",
            BindError::OutcomeUnknown { .. } => "unclear",
            BindError::NotLeading(NotLeading::Starting) => "unknown",
            BindError::NotLeading(_) => "not_leading",
            BindError::NotAdmitted { .. } => "not_admitted",
            BindError::Panicked => "panicked",
            BindError::Gone | BindError::Replaced { .. } => "gone",
            BindError::BoundElsewhere { .. } | BindError::BoundWithoutRecord => "bound_before",
            BindError::BindingRefused(_) => "not_carried_out",
            BindError::NodeChanges { .. } => "node_changed",
            BindError::Indeterminate(_) | BindError::NotRead(_) | BindError::NoTimeLeft => "unknown",
            BindError::TooMany => "too_many",
            BindError::Stopped => "stopped",
            BindError::Request(_) => "failed",
        }
    }
}
