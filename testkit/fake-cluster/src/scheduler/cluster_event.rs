//! What happened in the cluster that may make a refused pod fit, and whom it may help. Written by `watch`, read by `queue`.

use super::choose_node::diagnosis::RefusedBy;

/// What happened (kube-scheduler's ClusterEvent).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterEvent {
    /// A pod on a node was deleted, became terminal, or could not be bound after all.
    PodGone,
    NodeAdded,
    NodeAllocatable,
    NodeLabels,
    /// Taints or `spec.unschedulable`.
    NodeTaints,
    /// Annotations or conditions.
    NodeOther,
}

impl ClusterEvent {
    /// Whether a pod that was refused so may fit now. An extender cannot say what would help, so after its refusal every
    /// event may.
    pub(crate) fn may_help(self, refused_by: RefusedBy) -> bool {
        match refused_by {
            RefusedBy::Extender => true,
            RefusedBy::NodeResourcesFit => {
                matches!(self, Self::PodGone | Self::NodeAdded | Self::NodeAllocatable)
            }
            RefusedBy::NodeUnschedulable | RefusedBy::TaintToleration => {
                matches!(self, Self::NodeAdded | Self::NodeTaints)
            }
            RefusedBy::NodeAffinity => matches!(self, Self::NodeAdded | Self::NodeLabels),
        }
    }
}
