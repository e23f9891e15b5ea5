//! What pods and nodes say of themselves, as tests wait for it.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The pod's phase; `Pending` before kubelet says one.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether the pod passes its readiness probe and is not on its way out.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready =
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// What kubelet says of the pod's containers: init containers, then the others.
pub fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    })
}

/// How much of a resource a node has, in all and for pods. None where kubelet does not name the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amounts {
    /// What pods may request of it.
    pub allocatable: Option<u64>,
    /// Capacity of the node.
    pub capacity: Option<u64>,
}

impl Amounts {
    /// So many for pods, of so many.
    pub const fn of(allocatable: u64, capacity: u64) -> Self {
        Self { allocatable: Some(allocatable), capacity: Some(capacity) }
    }

    /// A resource that kubelet does not list.
    pub const NONE: Self = Self { allocatable: None, capacity: None };

    /// What the node says of a resource.
    pub fn on(node: &Node, resource: &str) -> Self {
        let status = node.status.as_ref();
        let amount = |all: Option<&BTreeMap<String, Quantity>>| all?.get(resource)?.0.parse().ok();
        Self {
            allocatable: amount(status.and_then(|status| status.allocatable.as_ref())),
            capacity: amount(status.and_then(|status| status.capacity.as_ref())),
        }
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.allocatable, self.capacity) {
            (None, None) => f.write_str("no allocatable"),
            (allocatable, capacity) => {
                write!(f, "allocatable {} of {}", allocatable.unwrap_or(0), capacity.unwrap_or(0))
            }
        }
    }
}

/// Whether kubelet has called the node ready later than that.
pub fn is_ready_since(node: &Node, since: Timestamp) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.into_iter().filter(|condition| condition.type_ == "Ready");
    // Times in a status are whole seconds, rounded down.
    ready.any(|condition| {
        condition.status == "True"
            && condition.last_heartbeat_time.as_ref().is_some_and(|time| time.0 > since)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_that_kubelet_does_not_name_is_not_zero() {
        let node: Node = serde_json::from_value(json!({"status": {
            "allocatable": {"vendor.example/device": "0"},
            "capacity": {"vendor.example/device": "2"},
        }}))
        .unwrap();
        assert_eq!(Amounts::on(&node, "vendor.example/device"), Amounts::of(0, 2));
        assert_eq!(Amounts::on(&node, "vendor.example/other"), Amounts::NONE);
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_not_ready() {
        let mut pod: Pod =
            serde_json::from_value(json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
                .unwrap();
        assert!(is_ready(&pod));
        pod.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::now()));
        assert!(!is_ready(&pod));
    }

    #[test]
    fn a_heartbeat_of_before_does_not_make_a_node_ready() {
        let node: Node = serde_json::from_value(json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:10Z"},
        ]}}))
        .unwrap();
        assert!(is_ready_since(&node, "2026-01-01T00:00:09.5Z".parse().unwrap()));
        assert!(!is_ready_since(&node, "2026-01-01T00:00:10.5Z".parse().unwrap()));
    }
}
