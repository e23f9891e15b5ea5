//! Why a node does not take a pod, and why that cannot be told. Read by filter, bind and the explainer. What is said of its
//! devices and cores stands in `core/src/placement/refusal.rs`.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use neuron_core::claim::Claim;
use neuron_core::device_model::DeviceModelError;
use neuron_core::names::{DEVICE_MODEL, PLUGIN_LEASE};
use neuron_core::placement::Refusal;
use neuron_core::request::RequestError;
use neuron_core::topology::NodeTopologyError;
use runtime::reached;

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NodeRefusal {
    /// Its devices do not allow it.
    #[error(transparent)]
    Placement(#[from] Refusal),
    /// A pod holds devices of the node, and nothing says which.
    #[error(
        "it is not known yet which devices pod {pods} holds; the node takes no new Neuron pod until its device plugin reports it"
    )]
    UnknownHolder {
        /// The pods, as `namespace/name`, comma separated.
        pods: String,
    },
    /// Too little is free but for what is reserved for pods of which it is not known whether they were bound.
    #[error(
        "devices of node {node} are reserved for a pod of which it is not known yet whether it was bound; that is mostly known within a minute"
    )]
    UnclearReservation {
        /// The node.
        node: String,
    },
    /// Its topology is not known.
    #[error(transparent)]
    Topology(#[from] NodeTopologyError),
    /// Its report cannot be read.
    #[error("{0}")]
    Report(String),
    /// What the pod asks for cannot be read.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// A ResourceClaim gives the pod what the node's device plugin advertises: kubelet would not ask the plugin, and the
    /// same devices would be counted twice.
    #[error(
        "the pod gets {resources} from ResourceClaim {claim} through a DeviceClass, and the node has a Neuron device plugin, which kubelet does not ask then: remove extendedResourceName from the DeviceClass and recreate the pod, or run no Neuron device plugin on the node"
    )]
    Claimed {
        /// The resources' full names, comma separated.
        resources: String,
        /// The ResourceClaim's name.
        claim: String,
    },
    /// The Lease of its device plugin has expired.
    #[error(
        "the node's Neuron device plugin has not renewed its Lease {PLUGIN_LEASE}-{node} for too long; the node takes no new Neuron pod \
         until it does: look at the plugin's pod there, or delete the Lease of a plugin that was taken away"
    )]
    PluginSilent {
        /// The node.
        node: String,
    },
    /// The pod's author wants another device model.
    #[error(
        "the pod is restricted to device models {wanted} by its annotation {DEVICE_MODEL}, the node is a {instance_type}"
    )]
    OtherModel {
        /// The models.
        wanted: Arc<str>,
        /// The node's instance type.
        instance_type: String,
    },
    /// The annotation by which the pod's author wants device models cannot be read.
    #[error(transparent)]
    Models(#[from] DeviceModelError),
    /// The watch shows no such node.
    #[error("the Neuron scheduler knows no node of this name")]
    UnknownNode,
}

#[cfg(planted)]
impl NodeRefusal {
    /// Planted: of a node that has too little free now it is said that it never has enough.
    pub(crate) fn as_planted(mut self) -> Self {
        if let NodeRefusal::Placement(Refusal::NotEnough { permanent, .. }) = &mut self
            && runtime::is_planted("never-said-too-soon")
        {
            *permanent = true;
        }
        self
    }
}

/// What tells refusals apart whatever their numbers and names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RefusalKind(Discriminant<NodeRefusal>, Option<Discriminant<Refusal>>);

impl NodeRefusal {
    /// The refusal of a pod that gets from this claim what a plugin advertises.
    pub(super) fn claimed(claim: &Claim) -> Self {
        let resources: Vec<&str> = claim.resources().into_iter().collect();
        NodeRefusal::Claimed { resources: resources.join(", "), claim: claim.name.clone() }
    }

    /// What tells this refusal's kind apart from others, whatever its numbers.
    pub(crate) fn kind(&self) -> RefusalKind {
        let placement = match self {
            NodeRefusal::Placement(refusal) => Some(discriminant(refusal)),
            _ => None,
        };
        RefusalKind(discriminant(self), placement)
    }

    /// What metrics call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            NodeRefusal::Placement(refusal) => name(refusal),
            NodeRefusal::UnknownHolder { .. } => "unknown_holder",
            NodeRefusal::UnclearReservation { .. } => "unclear_reservation",
            NodeRefusal::Topology(_) => "unknown_type",
            NodeRefusal::Report(_) => "unreadable_report",
            NodeRefusal::PluginSilent { .. } => "plugin_silent",
            NodeRefusal::OtherModel { .. } => "other_model",
            NodeRefusal::Models(_) => "no_model",
            NodeRefusal::Request(_) => "unreadable_request",
            NodeRefusal::Claimed { .. } => "claimed",
            NodeRefusal::UnknownNode => "unknown_node",
        }
    }

    /// Counts it as a branch, by its reason. Of those that are not here, filter counts what it was asked about.
    pub(crate) fn count(&self) {
        match self {
            NodeRefusal::Placement(refusal) => count(refusal),
            NodeRefusal::UnknownHolder { .. } => reached("extender: refused, a holder is unknown"),
            NodeRefusal::UnclearReservation { .. } => reached("extender: refused, a reservation is unclear"),
            NodeRefusal::Topology(_) => reached("extender: refused, the node's type is not known"),
            NodeRefusal::Report(_) => reached("extender: refused, the node's report is not readable"),
            NodeRefusal::PluginSilent { .. } => reached("extender: refused, the plugin is silent"),
            NodeRefusal::OtherModel { .. } => reached("extender: refused, another device model"),
            NodeRefusal::Models(_) => reached("extender: refused, no device model"),
            NodeRefusal::Request(_) | NodeRefusal::Claimed { .. } | NodeRefusal::UnknownNode => {}
        }
    }

    /// Whether no pod's end can lift it, so that preemption need not try.
    pub(crate) fn is_permanent(&self) -> bool {
        match self {
            NodeRefusal::Placement(refusal) => refusal.is_permanent(),
            NodeRefusal::Topology(error) => is_no_neuron_node(error),
            NodeRefusal::Request(_)
            | NodeRefusal::Claimed { .. }
            | NodeRefusal::OtherModel { .. }
            | NodeRefusal::Models(_) => true,
            NodeRefusal::UnknownNode
            | NodeRefusal::UnknownHolder { .. }
            | NodeRefusal::UnclearReservation { .. }
            | NodeRefusal::Report(_)
            | NodeRefusal::PluginSilent { .. } => false,
        }
    }

    /// Whether the pod may fit all the same, so that it is not refused where no other node takes it.
    pub(crate) fn is_indeterminate(&self) -> bool {
        matches!(
            self,
            NodeRefusal::UnknownNode
                | NodeRefusal::UnknownHolder { .. }
                | NodeRefusal::UnclearReservation { .. }
        )
    }

    /// Whether nothing says that the node has Neuron devices.
    pub(crate) fn is_no_neuron_node(&self) -> bool {
        matches!(self, NodeRefusal::Topology(error) if is_no_neuron_node(error))
    }
}

fn name(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::UnsupportedCount { .. } => "unsupported_count",
        Refusal::TooManyContainers { .. } => "too_many_containers",
        Refusal::NotEnough { permanent: true, .. } => "too_small",
        Refusal::NotEnough { .. } => "not_enough",
        Refusal::NotLinked { .. } => "not_linked",
        Refusal::NeverTogether { .. } => "never_together",
        Refusal::Unhealthy { .. } => "unhealthy",
        Refusal::HandDownNotSafe { .. } => "hand_down_not_safe",
        Refusal::NotDecided { .. } => "not_decided",
    }
}

fn count(refusal: &Refusal) {
    match refusal {
        Refusal::UnsupportedCount { .. } => reached("extender: refused, the type gives no such count"),
        Refusal::TooManyContainers { .. } => reached("extender: refused, too many containers"),
        Refusal::NotEnough { permanent: true, .. } => reached("extender: refused, the node is too small"),
        Refusal::NotEnough { .. } => reached("extender: refused, not enough is free"),
        Refusal::NotLinked { .. } => reached("extender: refused, what is free is not linked"),
        Refusal::NeverTogether { .. } => reached("extender: refused, containers never fit together"),
        Refusal::Unhealthy { .. } => reached("extender: refused, devices are unhealthy"),
        Refusal::HandDownNotSafe { .. } => reached("extender: refused, what is handed down is not safe"),
        Refusal::NotDecided { .. } => reached("extender: refused, the search was given up"),
    }
}

fn is_no_neuron_node(error: &NodeTopologyError) -> bool {
    matches!(error, NodeTopologyError::NoType | NodeTopologyError::UnknownType { .. })
}

/// Why it is not known whether any node can take a pod. kube-scheduler gets it as an error: after a refusal it tries the pod
/// again only when it sees a change, which it may have seen before the extender, after an error by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Indeterminate {
    /// The call came before the first complete lists.
    #[error("the pods and nodes of the cluster have not been listed yet; try again")]
    BeforeFirstList,
    /// Pods may have ended, or nodes come, unseen.
    #[error(
        "the watch of pods and nodes is disconnected, so what is free is not known; it is being taken up again"
    )]
    Disconnected,
    /// A watch has ended, as each does once a minute, and the next one tells nothing yet.
    #[error(
        "the watch of pods and nodes is being taken up again, so what is free is not known; kube-scheduler tries again by itself"
    )]
    BetweenWatches,
    /// The watch of the plugins' Leases has ended, as each does within 20 s, and the next one tells nothing yet: a plugin that counts as
    /// silent may have renewed its own.
    #[error(
        "the watch of the device plugins' Leases is being taken up again, so which plugins live is not known; kube-scheduler tries again by itself"
    )]
    BetweenLeaseWatches,
    /// Nodes have holders of which nothing says what they hold, or the watch has not shown them yet.
    #[error("{0}")]
    UnknownNodes(String),
    /// Nodes have devices that are reserved for a pod of which it is open whether it was bound.
    #[error("{0}")]
    UnclearReservations(String),
}
