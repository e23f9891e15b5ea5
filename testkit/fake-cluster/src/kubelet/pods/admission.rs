//! Whether a pod may run here: first its devices, then kubelet's general predicates. Called by `watch`, one pod at a time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use runtime::reached;

use crate::amounts::{Amounts, pod_request};
use crate::kubelet::device_manager::allocate::{AllocateError, allocate};
use crate::kubelet::shared::{Shared, locked};

/// Why a pod may not run: reason and message of its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// Whether a pod may run.
pub(crate) enum Admission {
    Admitted,
    Rejected(Rejection),
    /// The kubelet stopped before it decided.
    Undecided,
}

/// Admits or rejects `pod`; `others` are the active pods beside it.
pub(crate) async fn admit(shared: &Arc<Shared>, pod: &Pod, others: &[Arc<Pod>]) -> Admission {
    // Kubelet's resource managers allocate before its predicates run.
    match allocate_pod(shared, pod).await {
        Ok(()) => {}
        Err(AllocateError::KubeletStops) => return Admission::Undecided,
        Err(error) => {
            count(&error);
            return Admission::Rejected(Rejection {
                reason: "UnexpectedAdmissionError".to_owned(),
                message: format!("Allocate failed due to {error}, which is unexpected"),
            });
        }
    }
    match first_misfit(shared, pod, others) {
        Some(rejection) => Admission::Rejected(rejection),
        None => Admission::Admitted,
    }
}

/// Counts the refusal by its reason, as far as a kubelet can have it whose plugins answer as they should.
fn count(error: &AllocateError) {
    match error {
        AllocateError::Unregistered(_) => reached("cluster: admission refused, the resource is forgotten"),
        AllocateError::NoneHealthy(_) => reached("cluster: admission refused, no device is healthy"),
        AllocateError::AssignedUnhealthy(_) => {
            reached("cluster: admission refused, its devices are unhealthy")
        }
        AllocateError::TooFew { .. } => reached("cluster: admission refused, too few devices are free"),
        AllocateError::Stopped(_) => reached("cluster: admission refused, the plugin has stopped"),
        AllocateError::Preference(_) => reached("cluster: admission refused, no preference was answered"),
        AllocateError::Plugin(_) => reached("cluster: admission refused by the plugin"),
        AllocateError::NotSaved(_) => reached("cluster: admission refused, the checkpoint was not written"),
        AllocateError::Changed { .. }
        | AllocateError::LostSome { .. }
        | AllocateError::NoEndpoint(_)
        | AllocateError::UnknownPlugin(_)
        | AllocateError::Empty(_)
        | AllocateError::KubeletStops => {}
    }
}

async fn allocate_pod(shared: &Arc<Shared>, pod: &Pod) -> Result<(), AllocateError> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        allocate(shared, pod, container).await?;
    }
    Ok(())
}

/// The first resource that does not fit, in kubelet's order: pods, cpu, memory, extended resources.
fn first_misfit(shared: &Shared, pod: &Pod, others: &[Arc<Pod>]) -> Option<Rejection> {
    let mut capacity = Amounts::of(Some(&*locked(&shared.reported_allocatable)));
    let request_of = |pod: &Pod| pod.spec.as_ref().map(pod_request).unwrap_or_default();
    let requested = request_of(pod);
    let mut used = Amounts::default();
    others.iter().for_each(|other| used.add(&request_of(other)));
    let assignments = &locked(&shared.devices).assignments;
    if assignments.has_pod(pod.metadata.uid.as_deref().unwrap_or_default()) {
        // Ids in use fit by definition, even when the status lags or the plugin is gone (`sanitizeNodeAllocatable`).
        capacity.raise_to(&Amounts::from_iter(assignments.counts_in_use()));
    }
    let misfit = |resource: &str, requested: i64, used: i64, capacity: i64| {
        (requested > 0 && requested > capacity.saturating_sub(used)).then(|| {
            reached("cluster: admission refused, the node has too little");
            let message = format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
            );
            Rejection { reason: format!("OutOf{resource}"), message }
        })
    };
    let pods = i64::try_from(others.len()).unwrap_or(i64::MAX);
    let basic = ["cpu", "memory"].into_iter().map(str::to_owned);
    // Extended resources that the Node does not have are not checked (`removeMissingExtendedResources`).
    let extended = requested.iter().map(|(name, _)| name.clone());
    let extended = extended.filter(|name| name.contains('/') && capacity.contains(name));
    misfit("pods", 1, pods, capacity.get("pods")).or_else(|| {
        basic
            .chain(extended)
            .find_map(|name| misfit(&name, requested.get(&name), used.get(&name), capacity.get(&name)))
    })
}
