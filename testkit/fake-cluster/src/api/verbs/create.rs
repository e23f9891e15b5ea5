//! POST: creates an object. `insert` also serves an apply patch of an object that is missing.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::topology_labels;
use crate::api::error::{ApiError, FieldError};
use crate::api::kinds::decode::decode;
use crate::api::kinds::pod;
use crate::api::kinds::table::{Collection, NAMESPACES, Resource};
use crate::api::object::{self, as_map, metadata_mut};
use crate::api::reply;
use crate::api::store::{Key, State, Store, Stored};

/// Creates an object in `namespace` ("" for cluster-wide kinds).
pub(crate) fn create(
    store: &Store,
    resource: &Resource,
    namespace: &str,
    body: Value,
) -> Result<Response, ApiError> {
    let object = decode(resource, body)?;
    let created = insert(store, &mut store.lock(), resource, namespace, object)?;
    Ok(reply::object(StatusCode::CREATED, resource, &created))
}

/// Puts a decoded object into the store for the first time.
pub(crate) fn insert(
    store: &Store,
    state: &mut State,
    resource: &Resource,
    namespace: &str,
    mut object: Value,
) -> Result<Arc<Stored>, ApiError> {
    let key = set_name(state, resource, namespace, &mut object)?;
    let metadata = metadata_mut(&mut object);
    if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    metadata.remove("deletionTimestamp");
    metadata.remove("deletionGracePeriodSeconds");
    metadata.insert("uid".into(), state.next_uid().into());
    metadata.insert("creationTimestamp".into(), store.timestamp(Duration::ZERO).into());
    match resource.collection {
        Collection::Pods => {
            pod::complete(&mut object)?;
            let errors = pod::check_new(&object);
            if !errors.is_empty() {
                return Err(ApiError::invalid(resource, &key.name, errors));
            }
            if store.version().behaviour().topology_labels {
                let labels = topology_labels::of_node(state, object::text(&object, "/spec/nodeName"));
                add_labels(&mut object, labels);
            }
        }
        Collection::Namespaces => {
            as_map(&mut object).insert("status".into(), json!({"phase": "Active"}));
        }
        Collection::Nodes | Collection::Events | Collection::Leases => {}
    }
    if state.get(resource.collection, &key).is_some() {
        return Err(ApiError::already_exists(resource, &key.name));
    }
    Ok(state.insert(resource.collection, key, object))
}

fn add_labels(object: &mut Value, labels: Vec<(String, String)>) {
    for (name, value) in labels {
        as_map(metadata_mut(object).entry("labels").or_insert(Value::Null)).insert(name, value.into());
    }
}

/// Gives the object its name (from generateName where it has none) and its namespace, which must exist.
fn set_name(
    state: &mut State,
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<Key, ApiError> {
    if resource.namespaced {
        check_namespace(object, namespace)?;
        if state.get(Collection::Namespaces, &Key::new("", namespace)).is_none() {
            return Err(ApiError::not_found(&NAMESPACES, namespace));
        }
    }
    let mut name = object::text(object, "/metadata/name").to_owned();
    let prefix = object::text(object, "/metadata/generateName").to_owned();
    if name.is_empty() {
        if prefix.is_empty() {
            let error = FieldError::required("metadata.name", "name or generateName is required");
            return Err(ApiError::invalid(resource, "", vec![error]));
        }
        name = state.next_name(&prefix);
    }
    let metadata = metadata_mut(object);
    metadata.insert("name".into(), name.clone().into());
    if resource.namespaced {
        metadata.insert("namespace".into(), namespace.into());
        Ok(Key::new(namespace, name))
    } else {
        metadata.remove("namespace");
        Ok(Key::new("", name))
    }
}

/// Refuses an object that names another namespace than its address.
pub(super) fn check_namespace(object: &Value, namespace: &str) -> Result<(), ApiError> {
    let own = object::text(object, "/metadata/namespace");
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the namespace of the provided object does not match the namespace sent on the request ({own} != {namespace})"
    )))
}
