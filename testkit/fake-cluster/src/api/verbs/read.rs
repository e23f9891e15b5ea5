//! GET of one object, of a list, of a container's log, and of the server's version.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use runtime::reached;
use serde_json::json;

use super::selector::Filter;
use crate::api::error::ApiError;
use crate::api::kinds::pod;
use crate::api::kinds::table::{PODS, Resource};
use crate::api::store::{Key, Store};
use crate::api::{object, reply};
use crate::version::Version;

pub(crate) fn get(store: &Store, resource: &Resource, key: &Key) -> Result<Response, ApiError> {
    let found = store.lock().get(resource.collection, key).cloned();
    let object = found.ok_or_else(|| ApiError::not_found(resource, &key.name))?;
    Ok(reply::object(StatusCode::OK, resource, &object))
}

/// The objects that match now. `exact` asks for one resourceVersion: any but the newest is refused with 410, as after a
/// compaction. `at_least` must not lie in the future; with 0 any state will do, and the one `lag` versions ago is shown.
pub(crate) fn list(
    store: &Store,
    resource: &Resource,
    filter: &Filter,
    exact: Option<u64>,
    at_least: Option<u64>,
    lag: u64,
) -> Result<Response, ApiError> {
    let (version, objects) = {
        let state = store.lock();
        let version = state.version();
        if let Some(wanted) = exact.or(at_least).filter(|wanted| *wanted > version) {
            return Err(ApiError::too_new(wanted, version));
        }
        if exact.is_some_and(|wanted| wanted < version) {
            return Err(ApiError::expired("The resourceVersion for the provided list is too old."));
        }
        let shown = if at_least == Some(0) { state.version_before(lag) } else { version };
        if shown < version {
            reached("cluster: a list showed an older state");
        }
        (shown, state.list_at(shown, resource.collection, |object| filter.matches(object)))
    };
    Ok(reply::list(resource, version, &objects))
}

/// The text that `ApiServer::set_log` stored. Without `container` the pod must have exactly one.
pub(crate) fn log(store: &Store, key: &Key, container: Option<&str>) -> Result<Response, ApiError> {
    let state = store.lock();
    let found = state.get(PODS.collection, key).ok_or_else(|| ApiError::not_found(&PODS, &key.name))?;
    let names: Vec<&str> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod::containers(found, list))
        .map(|container| object::text(container, "/name"))
        .collect();
    let name = &key.name;
    let container = match (container.filter(|container| !container.is_empty()), names.as_slice()) {
        (Some(container), _) => container,
        (None, [only]) => only,
        (None, names) => {
            let choices = names.join(" ");
            return Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{choices}]"
            )));
        }
    };
    if !names.contains(&container) {
        return Err(ApiError::bad_request(format!("container {container} is not valid for pod {name}")));
    }
    let Some(text) = state.log(key, container) else {
        return Err(ApiError::bad_request(format!(
            "container \"{container}\" in pod \"{name}\" is waiting to start: ContainerCreating"
        )));
    };
    Ok(([(header::CONTENT_TYPE, "text/plain")], text.to_owned()).into_response())
}

/// What the server says of itself at `/version`.
pub(crate) fn server_version(version: Version) -> Response {
    let (major, minor) = version.numbers();
    let release = version.behaviour().release;
    Json(json!({"major": major.to_string(), "minor": minor.to_string(), "gitVersion": release}))
        .into_response()
}
