//! The labels of what is counted. Each value is one of few.

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
