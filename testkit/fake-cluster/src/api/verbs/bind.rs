//! `POST pods/{name}/binding`: node and annotations reach the pod in one write.

use std::time::Duration;

use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::core::v1::Binding;
use serde_json::{Value, json};

use super::conflict;
use crate::api::error::{ApiError, FieldError};
use crate::api::kinds::table::PODS;
use crate::api::object::{self, map_mut, metadata_mut};
use crate::api::store::{Key, Store};
use crate::api::{protobuf, reply};

/// The Binding in a request's body, as JSON or protobuf; 400 if it is none.
pub(crate) fn read(headers: &HeaderMap, body: &[u8]) -> Result<Binding, ApiError> {
    let is_protobuf = headers.get(CONTENT_TYPE).is_some_and(|kind| kind == protobuf::CONTENT_TYPE);
    let read = if is_protobuf {
        protobuf::binding(body)
    } else {
        serde_json::from_slice(body).map_err(|error| error.to_string())
    };
    read.map_err(|why| {
        ApiError::bad_request(format!("Binding in version \"v1\" cannot be handled as a Binding: {why}"))
    })
}

/// Binds a pod to the node that the Binding names.
pub(crate) fn bind(store: &Store, key: &Key, binding: Binding) -> Result<Response, ApiError> {
    let node = binding.target.name.unwrap_or_default();
    check_target(&key.name, &node, binding.target.kind.as_deref().unwrap_or_default())?;

    let mut state = store.lock();
    let old =
        state.get(PODS.collection, key).cloned().ok_or_else(|| ApiError::not_found(&PODS, &key.name))?;
    conflict::check_bind(key, &old, &binding.metadata)?;

    let mut pod = Value::clone(&old);
    map_mut(&mut pod, "spec").insert("nodeName".into(), node.into());
    let metadata = metadata_mut(&mut pod);
    for (field, entries) in
        [("annotations", binding.metadata.annotations), ("labels", binding.metadata.labels)]
    {
        for (name, value) in entries.into_iter().flatten() {
            object::as_map(metadata.entry(field).or_insert(Value::Null)).insert(name, value.into());
        }
    }
    set_scheduled(&mut pod, &store.timestamp(Duration::ZERO));
    state.insert(PODS.collection, key.clone(), pod);
    Ok(reply::success(StatusCode::CREATED, None))
}

fn check_target(pod: &str, node: &str, kind: &str) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    if !matches!(kind, "" | "Node") {
        let why = "must be empty or 'Node'";
        errors.push(FieldError::invalid("target.kind", format!("{kind:?}"), why));
    }
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(&PODS, pod, errors)) }
}

/// Sets the condition PodScheduled to True from `now` on.
fn set_scheduled(pod: &mut Value, now: &str) {
    let condition = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now});
    let conditions = map_mut(pod, "status").entry("conditions").or_insert(Value::Null);
    let mut others = match conditions.take() {
        Value::Array(conditions) => conditions,
        _ => Vec::new(),
    };
    others.retain(|condition| object::text(condition, "/type") != "PodScheduled");
    others.push(condition);
    *conditions = Value::Array(others);
}
