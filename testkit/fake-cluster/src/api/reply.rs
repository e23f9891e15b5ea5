//! Objects and lists as they are answered. Stored objects have no `apiVersion` and `kind`; a single object gets them
//! here, the items of a list do not, as in the real server.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::kinds::event;
use super::kinds::table::Resource;

/// An object with its type.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Typed<'a> {
    api_version: String,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a Value,
}

impl<'a> Typed<'a> {
    pub(crate) fn of(resource: &Resource, object: &'a Value) -> Self {
        Self { api_version: resource.api_version(), kind: resource.kind, object }
    }
}

/// One stored object as the body of an answer.
pub(crate) fn object(code: StatusCode, resource: &Resource, object: &Value) -> Response {
    json_body(code, &Typed::of(resource, &event::shown(resource, object)))
}

/// A list of stored objects at a resourceVersion.
pub(crate) fn list(resource: &Resource, version: u64, objects: &[Arc<Value>]) -> Response {
    let items: Vec<_> = objects.iter().map(|object| event::shown(resource, object)).collect();
    let metadata = json!({"resourceVersion": version.to_string()});
    let kind = format!("{}List", resource.kind);
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        kind: String,
        api_version: String,
        metadata: Value,
        items: Vec<std::borrow::Cow<'a, Value>>,
    }
    json_body(StatusCode::OK, &List { kind, api_version: resource.api_version(), metadata, items })
}

/// `status: Success`, as deletions and bindings answer.
pub(crate) fn success(code: StatusCode, details: Option<Value>) -> Response {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.as_u16().into(),
    }
    json_body(code, &status)
}

fn json_body(code: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (code, [(header::CONTENT_TYPE, "application/json")], Body::from(bytes)).into_response(),
        Err(error) => {
            ApiError::bad_request(format!("the answer cannot be written as JSON: {error}")).into_response()
        }
    }
}
