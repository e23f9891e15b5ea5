//! Objects and lists as they are answered. Stored objects have no `apiVersion` and `kind`; a single object gets them
//! here, the items of a list do not, as in the real server.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde_json::{Value, json};

use super::kinds::table::Resource;
use super::store::Stored;

/// An object's JSON with its type.
pub(crate) fn typed(resource: &Resource, object: &[u8]) -> Vec<u8> {
    let Resource { kind, .. } = resource;
    let mut typed = format!(r#"{{"apiVersion":"{}","kind":"{kind}""#, resource.api_version()).into_bytes();
    // The object follows without its opening brace.
    let fields = object.strip_prefix(b"{").unwrap_or_default();
    if fields.len() > 1 {
        typed.push(b',');
    }
    typed.extend_from_slice(fields);
    typed
}

/// One stored object as the body of an answer.
pub(crate) fn object(code: StatusCode, resource: &Resource, object: &Stored) -> Response {
    json_body(code, typed(resource, object.json(resource)))
}

/// A list of stored objects at a resourceVersion.
pub(crate) fn list(resource: &Resource, version: u64, objects: &[Arc<Stored>]) -> Response {
    let Resource { kind, .. } = resource;
    let api_version = resource.api_version();
    let mut body = format!(
        r#"{{"kind":"{kind}List","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{version}"}},"items":["#
    )
    .into_bytes();
    for (place, object) in objects.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(object.json(resource));
    }
    body.extend_from_slice(b"]}");
    json_body(StatusCode::OK, body)
}

/// `status: Success`, as deletions and bindings answer.
pub(crate) fn success(code: StatusCode, details: Option<Value>) -> Response {
    let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.as_u16().into(),
    }
    json_body(code, status.to_string())
}

fn json_body(code: StatusCode, bytes: impl Into<Bytes>) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], Body::from(bytes.into())).into_response()
}
