//! How important a pod is. Asked by the queue, and by whoever ends pods for others.

use k8s_openapi::api::core::v1::Pod;

/// The pod's priority, as admission has set it from its PriorityClass; 0 if it did not.
pub(crate) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}
