//! DELETE: at once for most objects, in two steps for pods that run on a node.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::object::metadata_mut;
use super::resource::{Collection, Resource};
use super::store::Key;
use super::{ApiServer, object, pod, reply};

/// The part of DeleteOptions that is served.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeleteOptions {
    grace_period_seconds: Option<i64>,
    preconditions: Preconditions,
    dry_run: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Deletes an object. A pod on a node only gets its deletionTimestamp, until it is deleted with grace 0.
pub(super) fn delete(
    server: &ApiServer,
    resource: &Resource,
    key: &Key,
    options: &DeleteOptions,
) -> Result<Response, ApiError> {
    if options.dry_run.as_ref().is_some_and(|dry_run| !dry_run.is_empty()) {
        return Err(ApiError::bad_request("dryRun is not served by this server"));
    }
    if resource.collection == Collection::Namespaces {
        return Err(ApiError::method_not_allowed());
    }
    let mut state = server.store.lock();
    let found = state.get(resource.collection, key).cloned();
    let old = found.ok_or_else(|| ApiError::not_found(resource, &key.name))?;
    check_preconditions(resource, key, &old, &options.preconditions)?;

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
            let until = server.timestamp_after(Duration::from_secs(grace));
            let mut pod = Value::clone(&old);
            let metadata = metadata_mut(&mut pod);
            metadata.insert("deletionTimestamp".into(), until.into());
            metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
            state.insert(resource.collection, key.clone(), pod)
        }
    };
    Ok(reply::object(StatusCode::OK, resource, &marked))
}

/// How long the pod may take to end; 0 for a pod that runs nowhere.
fn grace_seconds(pod: &Value, wanted: Option<i64>) -> u64 {
    if object::text(pod, "/spec/nodeName").is_empty() || pod::is_terminal(pod) {
        return 0;
    }
    let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    // Kubernetes reads a negative period as one second.
    u64::try_from(wanted.or(own).unwrap_or(30)).unwrap_or(1)
}

fn check_preconditions(
    resource: &Resource,
    key: &Key,
    old: &Arc<Value>,
    wanted: &Preconditions,
) -> Result<(), ApiError> {
    let uid = object::text(old, "/metadata/uid");
    if let Some(wanted) = wanted.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). \
             The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(resource, "", &key.name, &why));
    }
    let version = object::resource_version(old);
    if let Some(wanted) = wanted.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(ApiError::conflict(resource, "", &key.name, &why));
    }
    Ok(())
}
