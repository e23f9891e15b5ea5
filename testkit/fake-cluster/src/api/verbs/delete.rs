//! DELETE: at once for most objects, in two steps for pods that run on a node.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::conflict::{self, DeletePreconditions};
use crate::api::error::ApiError;
use crate::api::kinds::pod;
use crate::api::kinds::table::{Collection, Resource};
use crate::api::object::{self, metadata_mut};
use crate::api::reply;
use crate::api::store::{Key, Store};

/// The part of DeleteOptions that is served.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: DeletePreconditions,
    dry_run: Option<Vec<String>>,
}

/// Deletes an object. A pod on a node only gets its deletionTimestamp, until it is deleted with grace 0.
pub(crate) fn delete(
    store: &Store,
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Response, ApiError> {
    if options.dry_run.as_ref().is_some_and(|dry_run| !dry_run.is_empty()) {
        return Err(ApiError::dry_run());
    }
    if resource.collection == Collection::Namespaces {
        return Err(ApiError::method_not_allowed());
    }
    let mut state = store.lock();
    let found = state.get(resource.collection, key).cloned();
    let old = found.ok_or_else(|| ApiError::not_found(resource, &key.name))?;
    conflict::check_delete(resource, key, &old, &options.preconditions)?;

    if resource.collection != Collection::Pods {
        state.remove(resource.collection, key);
        let uid = object::text(&old, "/metadata/uid");
        let details = json!({"name": key.name, "group": resource.group, "kind": resource.plural, "uid": uid});
        return Ok(reply::success(StatusCode::OK, Some(details)));
    }
    let grace = grace_seconds(&old, options.grace_period_seconds);
    if grace == 0 {
        state.remove(resource.collection, key);
        return Ok(reply::object(StatusCode::OK, resource, &old));
    }
    let marked = match old.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_u64) {
        // A second deletion can only shorten the wait.
        Some(present) if present <= grace => old,
        _ => {
            let until = store.timestamp(Duration::from_secs(grace));
            let mut pod = Value::clone(&old);
            let metadata = metadata_mut(&mut pod);
            metadata.insert("deletionTimestamp".into(), until.into());
            metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
            state.insert(resource.collection, key.clone(), pod)
        }
    };
    Ok(reply::object(StatusCode::OK, resource, &marked))
}

/// Seconds the pod may take to end; 0 for a pod that runs nowhere.
fn grace_seconds(pod: &Value, wanted: Option<i64>) -> u64 {
    if object::text(pod, "/spec/nodeName").is_empty() || pod::is_terminal(pod) {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    // Kubernetes reads a negative period as one second.
    u64::try_from(wanted.or(own).unwrap_or(30)).unwrap_or(1)
}
