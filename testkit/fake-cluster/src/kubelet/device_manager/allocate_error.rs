//! Why a container gets no devices, in kubelet's words, because they end in the pod's status.

use kubelet_api::deviceplugin::v1beta1::AllocateResponse;

/// Why a container gets no devices.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AllocateError {
    #[error(
        "pod {pod:?} container {container:?} changed request for resource {resource:?} from {assigned} to {requested}"
    )]
    Changed { pod: String, container: String, resource: String, assigned: usize, requested: usize },
    #[error("cannot allocate unregistered device {0}")]
    Unregistered(String),
    #[error("no healthy devices present; cannot allocate unhealthy devices {0}")]
    NoneHealthy(String),
    #[error("previously allocated devices are no longer healthy; cannot allocate unhealthy devices {0}")]
    AssignedUnhealthy(String),
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {needed}, Available: {available}"
    )]
    TooFew { resource: String, needed: usize, available: usize },
    #[error("unexpectedly allocated less resources than required. Requested: {requested}, Got: {got}")]
    LostSome { requested: usize, got: usize },
    #[error("endpoint not found in cache for a registered resource: {0}")]
    NoEndpoint(String),
    #[error("unknown Device Plugin {0}")]
    UnknownPlugin(String),
    #[error("endpoint {0} has been stopped")]
    Stopped(String),
    #[error("device plugin GetPreferredAllocation rpc failed with err: {0}")]
    Preference(String),
    #[error("{0}")]
    Plugin(String),
    #[error("failed to write checkpoint file: {0}")]
    NotSaved(std::io::Error),
    #[error("no containers return in allocation response {0:?}")]
    Empty(AllocateResponse),
    /// The kubelet is stopping or has panicked: the pod's status does not change.
    #[error("kubelet is stopping")]
    KubeletStops,
}
