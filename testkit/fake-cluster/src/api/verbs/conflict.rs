//! Which writes are refused with 409 Conflict, because they mean another object or an older state of it. Called by `bind`,
//! `delete` and `update`; `create` answers its own 409 for a name that is taken.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use runtime::reached;
use serde::Deserialize;
use serde_json::Value;

use crate::api::error::ApiError;
use crate::api::kinds::table::{PODS, Resource};
use crate::api::object;
use crate::api::store::Key;

/// `preconditions` of a deletion.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeletePreconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Refuses an update whose `metadata` names another UID or an older resourceVersion than the stored object has.
pub(super) fn check_update(resource: &Resource, key: &Key, old: &Value, new: &Value) -> Result<(), ApiError> {
    check_field(resource, "", key, old, "UID", object::text(new, "/metadata/uid"))?;
    let version = object::resource_version(new);
    if !version.is_empty() && version != object::resource_version(old) {
        reached("cluster: a write met a newer object");
        return Err(ApiError::stale(resource, &key.name));
    }
    Ok(())
}

/// Refuses a deletion whose preconditions name another UID or resourceVersion than the stored object has.
pub(super) fn check_delete(
    resource: &Resource,
    key: &Key,
    old: &Value,
    preconditions: &DeletePreconditions,
) -> Result<(), ApiError> {
    let uid = object::text(old, "/metadata/uid");
    if let Some(wanted) = preconditions.uid.as_deref().filter(|wanted| *wanted != uid) {
        let why = format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). \
             The object might have been deleted and then recreated"
        );
        return Err(ApiError::conflict(resource, "", &key.name, &why));
    }
    let version = object::resource_version(old);
    if let Some(wanted) = preconditions.resource_version.as_deref().filter(|wanted| *wanted != version) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        );
        return Err(ApiError::conflict(resource, "", &key.name, &why));
    }
    Ok(())
}

/// Refuses the binding of a pod that is bound already, is being deleted, has scheduling gates, or is not the one that the
/// Binding's `metadata` names by UID or resourceVersion.
pub(super) fn check_bind(key: &Key, pod: &Value, binding: &ObjectMeta) -> Result<(), ApiError> {
    let wanted = [("UID", &binding.uid), ("ResourceVersion", &binding.resource_version)];
    for (field, wanted) in wanted {
        check_field(&PODS, "/binding", key, pod, field, wanted.as_deref().unwrap_or_default())?;
    }
    let name = &key.name;
    let node = object::text(pod, "/spec/nodeName");
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    let why = if pod.pointer("/metadata/deletionTimestamp").is_some() {
        reached("cluster: a binding met a pod that is being deleted");
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if !node.is_empty() {
        reached("cluster: a binding met a pod that is bound");
        format!("pod {name} is already assigned to node {node:?}")
    } else if gates.is_some_and(|gates| !gates.is_empty()) {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(ApiError::conflict(&PODS, "/binding", name, &why))
}

/// Compares the metadata field that error texts call `field` ("UID" or "ResourceVersion"); an empty `wanted` matches.
fn check_field(
    resource: &Resource,
    subresource: &str,
    key: &Key,
    old: &Value,
    field: &str,
    wanted: &str,
) -> Result<(), ApiError> {
    let found =
        if field == "UID" { object::text(old, "/metadata/uid") } else { object::resource_version(old) };
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    reached("cluster: a write met another object of the name");
    Err(ApiError::precondition(resource, subresource, &key.path(resource), &key.name, field, wanted, found))
}
