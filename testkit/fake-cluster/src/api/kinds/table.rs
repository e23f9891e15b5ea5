//! The resources that the server serves: their addresses, their types and the fields they can be selected by. The verbs
//! work on any row of it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::events::v1::Event as EventsEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One kind of stored object. Both event APIs read and write the same collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Collection {
    Pods,
    Nodes,
    Namespaces,
    Events,
    Leases,
}

impl Collection {
    /// The kind of its objects; events have one in both APIs.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Pods => PODS.kind,
            Self::Nodes => NODES.kind,
            Self::Namespaces => NAMESPACES.kind,
            Self::Events => CORE_EVENTS.kind,
            Self::Leases => LEASES.kind,
        }
    }
}

/// One resource of one API group, as clients address it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) collection: Collection,
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) has_status: bool,
    /// Field selector labels beside `metadata.name` and `metadata.namespace`.
    pub(crate) fields: &'static [&'static str],
    /// Reads the object as its Kubernetes type and writes it again: ill-typed fields are an error, unknown ones are
    /// dropped.
    pub(crate) retype: fn(Value) -> serde_json::Result<Value>,
}

pub(crate) static PODS: Resource = Resource {
    collection: Collection::Pods,
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
    namespaced: true,
    has_status: true,
    fields: &[
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ],
    retype: through::<Pod>,
};

pub(crate) static NODES: Resource = Resource {
    collection: Collection::Nodes,
    group: "",
    version: "v1",
    kind: "Node",
    plural: "nodes",
    namespaced: false,
    has_status: true,
    fields: &["spec.unschedulable"],
    retype: through::<Node>,
};

pub(crate) static NAMESPACES: Resource = Resource {
    collection: Collection::Namespaces,
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    namespaced: false,
    has_status: true,
    fields: &["status.phase"],
    retype: through::<Namespace>,
};

pub(crate) static CORE_EVENTS: Resource = Resource {
    collection: Collection::Events,
    group: "",
    version: "v1",
    kind: "Event",
    plural: "events",
    namespaced: true,
    has_status: false,
    fields: &[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "reason",
        "reportingComponent",
        "type",
    ],
    retype: through::<Event>,
};

pub(crate) static EVENTS: Resource = Resource {
    collection: Collection::Events,
    group: "events.k8s.io",
    version: "v1",
    kind: "Event",
    plural: "events",
    namespaced: true,
    has_status: false,
    fields: &[
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "reason",
        "reportingController",
        "type",
    ],
    retype: through::<EventsEvent>,
};

pub(crate) static LEASES: Resource = Resource {
    collection: Collection::Leases,
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    namespaced: true,
    has_status: false,
    fields: &[],
    retype: through::<Lease>,
};

/// Every resource the server serves.
pub(crate) fn all() -> [&'static Resource; 6] {
    [&PODS, &NODES, &NAMESPACES, &CORE_EVENTS, &EVENTS, &LEASES]
}

impl Resource {
    /// `v1` or `events.k8s.io/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name that error texts use: `pods` or `leases.coordination.k8s.io`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.into() } else { format!("{}.{}", self.plural, self.group) }
    }
}

fn through<K: DeserializeOwned + Serialize>(object: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<K>(object)?)
}
