//! `POST pods/{name}/binding`: node, annotations and labels reach the pod in one write.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use k8s_openapi::api::core::v1::Binding;
use serde_json::{Value, json};

use super::{conflict, topology_labels};
use crate::api::error::{ApiError, FieldError};
use crate::api::kinds::node_name;
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
    let behaviour = store.version().behaviour();
    let node = binding.target.name.unwrap_or_default();
    let kind = binding.target.kind.unwrap_or_default();
    check_target(&node, &kind, behaviour.binding_checks_node_name)?;

    let mut state = store.lock();
    let old =
        state.get(PODS.collection, key).cloned().ok_or_else(|| ApiError::not_found(&PODS, &key.name))?;
    conflict::check_bind(key, &old, &binding.metadata)?;

    let mut pod = Value::clone(&old);
    let mut labels = BTreeMap::new();
    if behaviour.topology_labels {
        labels.extend(binding.metadata.labels.into_iter().flatten());
        // An empty kind means a node too, but the admission plugin reads it to the letter.
        if kind == "Node" {
            labels.extend(topology_labels::of_node(&state, &node));
        }
    }
    map_mut(&mut pod, "spec").insert("nodeName".into(), node.into());
    if behaviour.binding_clears_nomination {
        map_mut(&mut pod, "status").remove("nominatedNodeName");
    }
    let metadata = metadata_mut(&mut pod);
    for (field, entries) in
        [("annotations", binding.metadata.annotations.unwrap_or_default()), ("labels", labels)]
    {
        for (name, value) in entries {
            object::as_map(metadata.entry(field).or_insert(Value::Null)).insert(name, value.into());
        }
    }
    set_scheduled(&mut pod, &store.timestamp(Duration::ZERO));
    state.insert(PODS.collection, key.clone(), pod);
    Ok(reply::success(StatusCode::CREATED, None))
}

fn check_target(node: &str, kind: &str, checks_node_name: bool) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let is_node = matches!(kind, "" | "Node");
    if !is_node {
        errors.push(FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    if node.is_empty() {
        errors.push(FieldError::required("target.name", ""));
    } else if checks_node_name && is_node {
        let broken = node_name::broken_rules(node).into_iter();
        errors.extend(broken.map(|why| FieldError::invalid("target.name", format!("{node:?}"), &why)));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::unexplained(&errors)) }
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
