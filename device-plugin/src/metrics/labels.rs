//! The labels of the plugin's metrics. Each value is one of few, so that their number stays bounded.

use prometheus_client::encoding::EncodeLabelSet;

/// Of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfResource {
    /// Its full name, such as `aws.amazon.com/neuron`.
    pub(super) resource: &'static str,
}

/// What came of something that was done for one resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOutcome {
    /// Its full name, such as `aws.amazon.com/neuron`.
    pub(super) resource: &'static str,
    /// What came of it, such as `given`.
    pub(super) result: &'static str,
}

/// Why a request for one resource was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfReason {
    /// Its full name, such as `aws.amazon.com/neuron`.
    pub(super) resource: &'static str,
    /// Why, such as `held`.
    pub(super) reason: &'static str,
}

/// In which state ids of one resource are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfState {
    /// Its full name, such as `aws.amazon.com/neuron`.
    pub(super) resource: &'static str,
    /// `healthy` or `unhealthy`, as kubelet is told.
    pub(super) state: &'static str,
}

/// What came of something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfResult {
    /// What came of it, such as `closed`.
    pub(super) result: &'static str,
}

/// Of one call of kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfCall {
    /// Its name in kubelet's contract, such as `Allocate`.
    pub(super) call: &'static str,
}

/// Why a device may not be given out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfFault {
    /// Its id, 0 for `/dev/neuron0`.
    pub(super) device: u32,
    /// Why, such as `memory_errors`.
    pub(super) reason: &'static str,
}

/// How healthy a device is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfHealth {
    /// `Healthy`, `Unhealthy` or `Unknown`, as in the node report.
    pub(super) health: &'static str,
}
