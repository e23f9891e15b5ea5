//! The pod of a call: what it asks for, and what else the verbs read of it. Part of the bodies.

use std::fmt;

use neuron_core::bounded::{self, LABEL, SUBDOMAIN};
use neuron_core::claim::Claim;
use neuron_core::pod::{ExtendedResourceClaimStatus, PodSpec};
use neuron_core::request::{PodRequest, RequestError};
use serde::Deserialize;

/// Kubernetes takes as much of all annotations of a pod together.
const ANNOTATIONS: usize = 256 << 10;

/// What the verbs read of the pod. Its containers are not kept: one that asks for nothing is a hundred times longer than its JSON.
#[derive(Debug, Deserialize)]
#[serde(from = "SentPod")]
pub(crate) struct PodToPlace {
    pub(crate) metadata: PodMetadata,
    /// How important it is; 0 without a PriorityClass.
    pub(crate) priority: i32,
    /// What a ResourceClaim gives it.
    pub(crate) claim: Option<Claim>,
    /// What it asks of the device plugin beside its claim, or why that cannot be read.
    pub(crate) request: Result<PodRequest, RequestError>,
}

/// The parts of a pod's metadata that the verbs read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodMetadata {
    #[serde(deserialize_with = "bounded::text::<_, SUBDOMAIN>")]
    pub(crate) name: String,
    #[serde(deserialize_with = "bounded::text::<_, LABEL>")]
    pub(crate) namespace: String,
    /// Text of 36 bytes, though no API says so.
    #[serde(deserialize_with = "bounded::text::<_, SUBDOMAIN>")]
    pub(crate) uid: String,
    annotations: Option<ReadAnnotations>,
}

/// The annotations of a pod that its author writes and the extender reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ReadAnnotations {
    #[serde(
        rename = "neuron-scheduler/device-model",
        deserialize_with = "bounded::text_or_null::<_, ANNOTATIONS>"
    )]
    device_model: Option<String>,
}

/// The parts of a pod that are read.
#[derive(Deserialize)]
struct SentPod {
    #[serde(default)]
    metadata: PodMetadata,
    spec: PodSpec,
    #[serde(default)]
    status: Option<SentStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SentStatus {
    extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

impl From<SentPod> for PodToPlace {
    fn from(SentPod { metadata, spec, status }: SentPod) -> Self {
        let claim = status.and_then(|status| status.extended_resource_claim_status);
        let claim = claim.as_ref().and_then(Claim::of);
        let request = PodRequest::of(&spec).map(|request| request.without(claim.as_ref()));
        Self { metadata, priority: spec.priority.unwrap_or_default(), claim, request }
    }
}

impl PodMetadata {
    /// The device models that the pod's author wants, as written.
    pub(crate) fn device_model(&self) -> Option<&str> {
        self.annotations.as_ref()?.device_model.as_deref()
    }
}

impl fmt::Display for PodMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
