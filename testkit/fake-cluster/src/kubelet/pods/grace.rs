//! How long containers may take to end. Used by `watch`, `worker` and `ends`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// What every container is given, also one whose pod has less or is not known any more (kubelet's
/// `minimumGracePeriodInSeconds`).
pub(crate) const SHORTEST: Duration = Duration::from_secs(2);
/// The default of `spec.terminationGracePeriodSeconds`.
const DEFAULT: i64 = 30;

/// What the pod's deletion gives it.
pub(crate) fn of_deletion(pod: &Pod) -> Duration {
    pod.metadata.deletion_grace_period_seconds.map_or_else(|| of_spec(pod), at_least_shortest)
}

/// What the pod has when nothing else was said, as when its object is gone.
pub(crate) fn of_spec(pod: &Pod) -> Duration {
    let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    at_least_shortest(own.unwrap_or(DEFAULT))
}

fn at_least_shortest(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default()).max(SHORTEST)
}
