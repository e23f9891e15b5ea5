//! Pods, nodes and Bindings with the fields that are used here (k8s.io/api/core/v1/generated.proto and
//! k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto); their numbers never change.
//!
//! The API server does not look at annotations' values and at the texts of a status, so these may be any bytes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use prost::Message;
use runtime::protobuf::Object;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Binding {
    /// Names the pod and has the annotations that it gets.
    #[prost(message, required, tag = "1")]
    pub(crate) metadata: ObjectMeta,
    #[prost(message, required, tag = "2")]
    pub(crate) target: ObjectReference,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectReference {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "5")]
    pub(crate) api_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    #[prost(message, required, tag = "1")]
    pub(crate) metadata: ObjectMeta,
    #[prost(message, required, tag = "3")]
    pub(crate) status: NodeStatus,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeStatus {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) capacity: BTreeMap<String, Quantity>,
    #[prost(btree_map = "string, message", tag = "2")]
    pub(crate) allocatable: BTreeMap<String, Quantity>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pod {
    #[prost(message, required, tag = "1")]
    pub(crate) metadata: ObjectMeta,
    #[prost(message, required, tag = "2")]
    pub(crate) spec: PodSpec,
    #[prost(message, required, tag = "3")]
    pub(crate) status: PodStatus,
}

/// Metadata without `managedFields` above all, which can be half of an object.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// Empty for nodes.
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    #[prost(string, tag = "5")]
    pub(crate) uid: String,
    #[prost(string, tag = "6")]
    pub(crate) resource_version: String,
    #[cfg(planted)]
    #[prost(message, tag = "9")]
    pub(crate) deletion_timestamp: Option<Time>,
    #[prost(btree_map = "string, string", tag = "11")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, bytes", tag = "12")]
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) owner_references: Vec<OwnerReference>,
}

/// What an object belongs to. Of its texts the API server looks only at whether there are any.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OwnerReference {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) kind: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) name: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) uid: Vec<u8>,
    /// Whether it is the one that manages the object.
    #[prost(bool, optional, tag = "6")]
    pub(crate) controller: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSpec {
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<Container>,
    /// Empty if the pod is not bound.
    #[prost(string, tag = "10")]
    pub(crate) node_name: String,
    /// Ordinary init containers and sidecars, in the order in which kubelet starts them.
    #[prost(message, repeated, tag = "20")]
    pub(crate) init_containers: Vec<Container>,
    #[prost(int32, optional, tag = "25")]
    pub(crate) priority: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, required, tag = "8")]
    pub(crate) resources: Resources,
    /// `Always` makes a sidecar of an init container.
    #[prost(string, optional, tag = "24")]
    pub(crate) restart_policy: Option<String>,
}

/// A container's limits, which decide for extended resources.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resources {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) limits: BTreeMap<String, Quantity>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Quantity {
    /// The amount as in JSON, such as `1` or `2k`.
    #[prost(string, tag = "1")]
    pub(crate) text: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) phase: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) conditions: Vec<PodCondition>,
    /// The node on which others end for the pod; empty if there is none.
    #[prost(bytes = "vec", tag = "11")]
    pub(crate) nominated_node_name: Vec<u8>,
    #[prost(message, optional, tag = "18")]
    pub(crate) extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

/// What a ResourceClaim gives the pod instead of device plugins.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExtendedResourceClaimStatus {
    #[prost(message, repeated, tag = "1")]
    pub(crate) request_mappings: Vec<RequestMapping>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) resource_claim_name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestMapping {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) container_name: Vec<u8>,
    /// The extended resource's full name.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) resource_name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodCondition {
    /// `PodScheduled`, `Ready` and so on; the field `type`.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) kind: Vec<u8>,
    /// `True`, `False` or `Unknown`.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) status: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub(crate) last_transition_time: Option<Time>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) reason: Vec<u8>,
}

/// A time, of which JSON shows whole seconds. Kubernetes writes no time as an empty one.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Time {
    /// Since 1970.
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
}

impl Time {
    /// The time as in JSON: RFC 3339 in UTC. `None` for no time, and outside of what that can say.
    pub(crate) fn text(self) -> Option<String> {
        if self.seconds == 0 {
            return None;
        }
        Timestamp::from_second(self.seconds).ok().map(|time| time.to_string())
    }
}

impl Object for Pod {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Object for Node {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_text_that_json_has() {
        let text = |seconds| Time { seconds }.text();
        assert_eq!(text(1_795_348_800).as_deref(), Some("2026-11-22T12:00:00Z"));
        assert_eq!(text(i64::MAX), None);
        assert_eq!(text(0), None);
    }
}
