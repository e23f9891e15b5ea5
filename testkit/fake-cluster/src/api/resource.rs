//! The table of resources that the server serves: their addresses, their types and what may be selected by.
//! Everything else in this folder works on any row of it.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::events::v1::Event as EventsEvent;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::ApiError;
use super::object;

/// One kind of stored object. Both event APIs read and write the same collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Collection {
    Pods,
    Nodes,
    Namespaces,
    Events,
    Leases,
}

/// One resource of one API group, as clients address it.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) collection: Collection,
    /// Empty for the core group.
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    /// Field selector labels beside `metadata.name` and `metadata.namespace`.
    pub(super) fields: &'static [&'static str],
    /// Reads the object as its Kubernetes type and writes it again: ill-typed fields fail, unknown ones drop out.
    decode: fn(Value) -> serde_json::Result<Value>,
}

pub(super) static PODS: Resource = Resource {
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
    decode: through::<Pod>,
};

pub(super) static NODES: Resource = Resource {
    collection: Collection::Nodes,
    group: "",
    version: "v1",
    kind: "Node",
    plural: "nodes",
    namespaced: false,
    has_status: true,
    fields: &["spec.unschedulable"],
    decode: through::<Node>,
};

pub(super) static NAMESPACES: Resource = Resource {
    collection: Collection::Namespaces,
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    namespaced: false,
    has_status: true,
    fields: &["status.phase"],
    decode: through::<Namespace>,
};

pub(super) static CORE_EVENTS: Resource = Resource {
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
    decode: through::<Event>,
};

pub(super) static EVENTS: Resource = Resource {
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
    decode: through::<EventsEvent>,
};

pub(super) static LEASES: Resource = Resource {
    collection: Collection::Leases,
    group: "coordination.k8s.io",
    version: "v1",
    kind: "Lease",
    plural: "leases",
    namespaced: true,
    has_status: false,
    fields: &[],
    decode: through::<Lease>,
};

/// Every resource the server serves.
pub(super) fn all() -> [&'static Resource; 6] {
    [&PODS, &NODES, &NAMESPACES, &CORE_EVENTS, &EVENTS, &LEASES]
}

impl Resource {
    /// `v1` or `events.k8s.io/v1`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name that error texts use: `pods` or `leases.coordination.k8s.io`.
    pub(super) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.into() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Brings a client's object into the shape this resource's type gives it, without `apiVersion`, `kind` and
    /// `managedFields`, which are not stored. 400 when it does not fit the type.
    pub(super) fn decode(&self, object: Value) -> Result<Value, ApiError> {
        let mut object = (self.decode)(object).map_err(|error| {
            let Resource { kind, version, .. } = self;
            ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"
            ))
        })?;
        if let Value::Object(fields) = &mut object {
            fields.remove("apiVersion");
            fields.remove("kind");
            fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        }
        object::metadata_mut(&mut object).remove("managedFields");
        Ok(object)
    }
}

fn through<K: DeserializeOwned + Serialize>(object: Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<K>(object)?)
}
