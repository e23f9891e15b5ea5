//! Creating and changing objects: POST, PUT and PATCH, on the object or on its status.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::error::{ApiError, FieldError};
use super::object::{as_map, metadata_mut, put};
use super::patch::PatchKind;
use super::resource::{Collection, LEASES, NAMESPACES, Resource};
use super::store::{Key, State};
use super::{ApiServer, event, object, pod, reply};

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything but the status, for resources that have a status part.
    Main,
    /// The status; labels and annotations too, as in Kubernetes.
    Status,
}

/// Creates an object in `namespace` ("" for cluster-wide kinds).
pub(super) fn create(
    server: &ApiServer,
    resource: &Resource,
    namespace: &str,
    body: Value,
) -> Result<Response, ApiError> {
    let object = event::stored(resource, resource.decode(body)?);
    let created = insert_new(server, &mut server.store.lock(), resource, namespace, object)?;
    Ok(reply::object(StatusCode::CREATED, resource, &created))
}

/// Replaces an object or its status.
pub(super) fn replace(
    server: &ApiServer,
    resource: &Resource,
    key: &Key,
    part: Part,
    body: Value,
) -> Result<Response, ApiError> {
    let new = event::stored(resource, resource.decode(body)?);
    if resource.collection == LEASES.collection && object::resource_version(&new).is_empty() {
        let error = FieldError::invalid("metadata.resourceVersion", "0x0", "must be specified for an update");
        return Err(ApiError::invalid(resource, &key.name, vec![error]));
    }
    let mut state = server.store.lock();
    let replaced = update(&mut state, resource, key, part, new)?;
    Ok(reply::object(StatusCode::OK, resource, &replaced))
}

/// Patches an object or its status. Apply creates what is missing.
pub(super) fn patch(
    server: &ApiServer,
    resource: &Resource,
    key: &Key,
    part: Part,
    kind: PatchKind,
    body: Value,
) -> Result<Response, ApiError> {
    let mut state = server.store.lock();
    let Some(old) = state.get(resource.collection, key).cloned() else {
        if kind != PatchKind::Apply || part == Part::Status {
            return Err(ApiError::not_found(resource, &key.name));
        }
        let mut object = event::stored(resource, resource.decode(body)?);
        metadata_mut(&mut object).insert("name".into(), key.name.clone().into());
        let created = insert_new(server, &mut state, resource, &key.namespace, object)?;
        return Ok(reply::object(StatusCode::CREATED, resource, &created));
    };
    let patched = kind.apply(event::shown(resource, &old).into_owned(), body)?;
    let new = event::stored(resource, resource.decode(patched)?);
    let changed = update(&mut state, resource, key, part, new)?;
    Ok(reply::object(StatusCode::OK, resource, &changed))
}

/// Puts a decoded object into the store for the first time.
pub(super) fn insert_new(
    server: &ApiServer,
    state: &mut State,
    resource: &Resource,
    namespace: &str,
    mut object: Value,
) -> Result<std::sync::Arc<Value>, ApiError> {
    let key = settle_name(state, resource, namespace, &mut object)?;
    let metadata = metadata_mut(&mut object);
    if metadata.get("resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty()) {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    metadata.remove("deletionTimestamp");
    metadata.remove("deletionGracePeriodSeconds");
    metadata.insert("uid".into(), state.next_uid().into());
    metadata.insert("creationTimestamp".into(), server.timestamp().into());
    match resource.collection {
        Collection::Pods => {
            pod::complete(&mut object)?;
            let errors = pod::check_new(&object);
            if !errors.is_empty() {
                return Err(ApiError::invalid(resource, &key.name, errors));
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

/// Gives the object its name (from generateName where it has none) and its namespace, which must exist.
fn settle_name(
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

fn check_namespace(object: &Value, namespace: &str) -> Result<(), ApiError> {
    let own = object::text(object, "/metadata/namespace");
    if own.is_empty() || own == namespace {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the namespace of the provided object does not match the namespace sent on the request ({own} != {namespace})"
    )))
}

/// Writes the part of `new` that the request may change. Nothing is written, and no version used up, when
/// nothing changes.
fn update(
    state: &mut State,
    resource: &Resource,
    key: &Key,
    part: Part,
    mut new: Value,
) -> Result<std::sync::Arc<Value>, ApiError> {
    let found = state.get(resource.collection, key).cloned();
    let old = found.ok_or_else(|| ApiError::not_found(resource, &key.name))?;
    check_identity(resource, key, &old, &new)?;

    let metadata = metadata_mut(&mut new);
    let kept = ["name", "namespace", "generateName", "uid", "creationTimestamp", "deletionTimestamp"];
    for field in kept.into_iter().chain(["deletionGracePeriodSeconds", "resourceVersion"]) {
        put(metadata, field, old["metadata"].get(field));
    }
    if resource.has_status {
        let kept = if part == Part::Main { "status" } else { "spec" };
        put(as_map(&mut new), kept, old.get(kept));
    }
    if resource.collection == Collection::Pods && part == Part::Main {
        let errors = pod::check_update(&old, &new);
        if !errors.is_empty() {
            return Err(ApiError::invalid(resource, &key.name, errors));
        }
    }
    if new == *old { Ok(old) } else { Ok(state.insert(resource.collection, key.clone(), new)) }
}

/// Refuses a write that means another object, or an older state of this one.
fn check_identity(resource: &Resource, key: &Key, old: &Value, new: &Value) -> Result<(), ApiError> {
    let name = object::text(new, "/metadata/name");
    if name != key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if resource.namespaced {
        check_namespace(new, &key.namespace)?;
    }
    let (wanted, found) = (object::text(new, "/metadata/uid"), object::text(old, "/metadata/uid"));
    if !wanted.is_empty() && wanted != found {
        let path = key.path(resource);
        return Err(ApiError::precondition(resource, "", &path, &key.name, "UID", wanted, found));
    }
    let version = object::resource_version(new);
    if !version.is_empty() && version != object::resource_version(old) {
        return Err(ApiError::stale(resource, &key.name));
    }
    Ok(())
}
