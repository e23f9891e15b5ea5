//! Pods, nodes and Bindings, as far as they are used (k8s.io/api/core/v1/generated.proto).

use std::collections::BTreeMap;

use prost::Message;

use super::{Object, ObjectMeta, Time};

/// Which pod goes where.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Binding {
    /// The pod, and the annotations that it gets.
    #[prost(message, required, tag = "1")]
    pub(crate) metadata: ObjectMeta,
    /// The node.
    #[prost(message, required, tag = "2")]
    pub(crate) target: ObjectReference,
}

/// Names an object.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectReference {
    /// Its kind.
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    /// Its group and version.
    #[prost(string, tag = "5")]
    pub(crate) api_version: String,
}

/// A node.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    /// Name, labels, annotations.
    #[prost(message, required, tag = "1")]
    pub(crate) metadata: ObjectMeta,
}

/// A pod.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pod {
    /// Name, namespace, UID, annotations.
    #[prost(message, required, tag = "1")]
    pub(crate) metadata: ObjectMeta,
    /// What it asks for and where it runs.
    #[prost(message, required, tag = "2")]
    pub(crate) spec: PodSpec,
    /// How it fares.
    #[prost(message, required, tag = "3")]
    pub(crate) status: PodStatus,
}

/// What a pod asks for and where it runs.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodSpec {
    /// App containers.
    #[prost(message, repeated, tag = "2")]
    pub(crate) containers: Vec<Container>,
    /// The node that it is bound to; empty if to none.
    #[prost(string, tag = "10")]
    pub(crate) node_name: String,
    /// Ordinary init containers and sidecars, in the order in which kubelet starts them.
    #[prost(message, repeated, tag = "20")]
    pub(crate) init_containers: Vec<Container>,
}

/// One container of a pod.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Container {
    /// Name, unique in the pod.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// What it asks for.
    #[prost(message, required, tag = "8")]
    pub(crate) resources: Resources,
    /// `Always` makes a sidecar of an init container.
    #[prost(string, optional, tag = "24")]
    pub(crate) restart_policy: Option<String>,
}

/// A container's limits, which decide for extended resources.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resources {
    /// By the resource's name.
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) limits: BTreeMap<String, Quantity>,
}

/// An amount.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Quantity {
    /// As in JSON, such as `1` or `2k`.
    #[prost(string, tag = "1")]
    pub(crate) text: String,
}

/// How a pod fares. The API server does not look at the texts in here, so they may be any bytes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) phase: Vec<u8>,
    /// Conditions, such as `PodScheduled`.
    #[prost(message, repeated, tag = "2")]
    pub(crate) conditions: Vec<PodCondition>,
}

/// One condition of a pod.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PodCondition {
    /// `PodScheduled`, `Ready` and so on.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) kind: Vec<u8>,
    /// `True`, `False` or `Unknown`.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) status: Vec<u8>,
    /// When the status last changed.
    #[prost(message, optional, tag = "4")]
    pub(crate) last_transition_time: Option<Time>,
    /// Why, in one word.
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) reason: Vec<u8>,
}

impl Object for Pod {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Object for Node {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}
