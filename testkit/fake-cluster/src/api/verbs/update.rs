//! PUT and PATCH, of an object or of its status.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::Value;

use super::patch::PatchKind;
use super::{conflict, create};
use crate::api::error::{ApiError, FieldError};
use crate::api::kinds::decode::decode;
use crate::api::kinds::table::{Collection, LEASES, Resource};
use crate::api::kinds::{event, pod};
use crate::api::object::{self, as_map, metadata_mut, put};
use crate::api::reply;
use crate::api::store::{Key, State, Store, Stored};

/// Which part of an object a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, for resources that have a status part.
    Main,
    /// The status; labels and annotations too, as in Kubernetes.
    Status,
}

/// Replaces an object or its status.
pub(crate) fn replace(
    store: &Store,
    resource: &Resource,
    key: &Key,
    part: Part,
    body: Value,
) -> Result<Response, ApiError> {
    let new = decode(resource, body)?;
    if resource.collection == LEASES.collection && object::resource_version(&new).is_empty() {
        let error = FieldError::invalid("metadata.resourceVersion", "0x0", "must be specified for an update");
        return Err(ApiError::invalid(resource, &key.name, vec![error]));
    }
    let replaced = update(&mut store.lock(), resource, key, part, new)?;
    Ok(reply::object(StatusCode::OK, resource, &replaced))
}

/// Patches an object or its status. An apply patch creates a missing object.
pub(crate) fn patch(
    store: &Store,
    resource: &Resource,
    key: &Key,
    part: Part,
    kind: PatchKind,
    body: Value,
) -> Result<Response, ApiError> {
    let mut state = store.lock();
    let Some(old) = state.get(resource.collection, key).cloned() else {
        if kind != PatchKind::Apply || part == Part::Status {
            return Err(ApiError::not_found(resource, &key.name));
        }
        let mut object = decode(resource, body)?;
        metadata_mut(&mut object).insert("name".into(), key.name.clone().into());
        let created = create::insert(store, &mut state, resource, &key.namespace, object)?;
        return Ok(reply::object(StatusCode::CREATED, resource, &created));
    };
    let patched = kind.apply(event::shown(resource, &old).into_owned(), body)?;
    let changed = update(&mut state, resource, key, part, decode(resource, patched)?)?;
    Ok(reply::object(StatusCode::OK, resource, &changed))
}

/// Writes the part of `new` that the request may change. When nothing changes, nothing is written and no resourceVersion
/// is used up.
fn update(
    state: &mut State,
    resource: &Resource,
    key: &Key,
    part: Part,
    mut new: Value,
) -> Result<Arc<Stored>, ApiError> {
    let found = state.get(resource.collection, key).cloned();
    let old = found.ok_or_else(|| ApiError::not_found(resource, &key.name))?;
    check_address(resource, key, &new)?;
    conflict::check_update(resource, key, &old, &new)?;

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
    if new == **old { Ok(old) } else { Ok(state.insert(resource.collection, key.clone(), new)) }
}

/// Refuses an object that has another name or namespace than its address.
fn check_address(resource: &Resource, key: &Key, new: &Value) -> Result<(), ApiError> {
    let name = object::text(new, "/metadata/name");
    if name != key.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if resource.namespaced {
        create::check_namespace(new, &key.namespace)?;
    }
    Ok(())
}
