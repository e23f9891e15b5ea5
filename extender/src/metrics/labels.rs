//! The labels of the extender's metrics. Each value but nodes and instance types is one of few.

use prometheus_client::encoding::EncodeLabelSet;

/// Of one verb.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfVerb {
    /// As in its path, such as `filter`.
    pub(super) verb: &'static str,
}

/// What a call of a verb was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfVerbResult {
    /// As in its path, such as `filter`.
    pub(super) verb: &'static str,
    /// What was answered, such as `fits`.
    pub(super) result: &'static str,
}

/// Of one part of a bind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfPart {
    /// `pod`, `binding` or `outcome`.
    pub(super) part: &'static str,
}

/// Why nodes refuse.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfReason {
    /// Why, such as `not_linked`.
    pub(super) reason: &'static str,
}

/// Of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfNode {
    /// Its name.
    pub(super) node: String,
    /// Its instance type.
    pub(super) instance_type: String,
}

/// In which state devices or cores of a node are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfNodeState {
    /// The node's name.
    pub(super) node: String,
    /// The node's instance type.
    pub(super) instance_type: String,
    /// `free`, `held` or `unhealthy`.
    pub(super) state: &'static str,
}

/// Of one watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfWatch {
    /// What is watched: `pods` or `nodes`.
    pub(super) watch: &'static str,
}
