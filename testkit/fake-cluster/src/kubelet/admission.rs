//! Whether a pod may run here: first its devices, then kubelet's general predicates. Asked by `pods`, one pod at a time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::allocate::{AllocateError, allocate};
use super::reuse::Reusable;
use super::shared::{Shared, locked};
use crate::amounts::{Amounts, is_sidecar, pod_request};

/// Why a pod may not run, as its status says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: String,
    pub(crate) message: String,
}

/// What became of a pod that asked to run.
pub(crate) enum Verdict {
    Admitted,
    Rejected(Rejection),
    /// The kubelet stops before it has decided.
    Undecided,
}

/// Admits or rejects `pod`; `others` are the active pods beside it.
pub(crate) async fn admit(shared: &Shared, pod: &Pod, others: &[Arc<Pod>]) -> Verdict {
    // Devices come first: kubelet's predicates run after the resource managers have allocated.
    match allocate_pod(shared, pod).await {
        Ok(()) => {}
        Err(AllocateError::KubeletStops) => return Verdict::Undecided,
        Err(error) => {
            return Verdict::Rejected(Rejection {
                reason: "UnexpectedAdmissionError".to_owned(),
                message: format!("Allocate failed due to {error}, which is unexpected"),
            });
        }
    }
    match first_misfit(shared, pod, others) {
        Some(rejection) => Verdict::Rejected(rejection),
        None => Verdict::Admitted,
    }
}

async fn allocate_pod(shared: &Shared, pod: &Pod) -> Result<(), AllocateError> {
    let Some(spec) = &pod.spec else { return Ok(()) };
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let mut reusable = Reusable::default();
    for container in spec.init_containers.iter().flatten() {
        allocate(shared, uid, container, &reusable).await?;
        let books = locked(&shared.books);
        if is_sidecar(container) {
            reusable.leave(&books, uid, &container.name);
        } else {
            reusable.join(&books, uid, &container.name);
        }
    }
    for container in &spec.containers {
        allocate(shared, uid, container, &reusable).await?;
        reusable.leave(&locked(&shared.books), uid, &container.name);
    }
    Ok(())
}

/// The first resource that does not fit, in kubelet's order: pods, cpu, memory, extended resources.
fn first_misfit(shared: &Shared, pod: &Pod, others: &[Arc<Pod>]) -> Option<Rejection> {
    let mut capacity = Amounts::of(Some(&*locked(&shared.reported)));
    let request_of = |pod: &Pod| pod.spec.as_ref().map(pod_request).unwrap_or_default();
    let requested = request_of(pod);
    let mut used = Amounts::default();
    others.iter().for_each(|other| used.add(&request_of(other)));
    let books = locked(&shared.books);
    if books.has_pod(pod.metadata.uid.as_deref().unwrap_or_default()) {
        // What is in use fits by definition, even when the status lags or the plugin is gone
        // (`sanitizeNodeAllocatable`).
        capacity.raise_to(&Amounts::from_iter(books.in_use()));
    }
    let misfit = |resource: &str, requested: i64, used: i64, capacity: i64| {
        (requested > 0 && requested > capacity.saturating_sub(used)).then(|| Rejection {
            reason: format!("OutOf{resource}"),
            message: format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
        })
    };
    let pods = i64::try_from(others.len()).unwrap_or(i64::MAX);
    let basic = ["cpu", "memory"].into_iter().map(str::to_owned);
    // Extended resources the Node does not know are no reason to refuse (`removeMissingExtendedResources`).
    let extended = requested.iter().map(|(name, _)| name.clone());
    let extended = extended.filter(|name| name.contains('/') && capacity.contains(name));
    misfit("pods", 1, pods, capacity.get("pods")).or_else(|| {
        basic
            .chain(extended)
            .find_map(|name| misfit(&name, requested.get(&name), used.get(&name), capacity.get(&name)))
    })
}
