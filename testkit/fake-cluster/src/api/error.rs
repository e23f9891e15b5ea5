//! Refused requests as the API server words them: a Status object with code, reason, message and details.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use kube::core::response::{Status, StatusCause, StatusDetails};
use serde_json::{Value, json};

use super::kinds::table::Resource;

/// A refused request.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Status>);

impl ApiError {
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::about(404, "NotFound", message, details(resource, name))
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::about(409, "AlreadyExists", message, details(resource, name))
    }

    /// `subresource` is "" or, for example, "/binding".
    pub(crate) fn conflict(resource: &Resource, subresource: &str, name: &str, why: &str) -> Self {
        let qualified = resource.qualified();
        let message = format!("Operation cannot be fulfilled on {qualified}{subresource} \"{name}\": {why}");
        Self::about(409, "Conflict", message, details(resource, name))
    }

    /// A write that carries an older resourceVersion than the stored object.
    pub(crate) fn stale(resource: &Resource, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, "", name, why)
    }

    /// A write whose `metadata.uid` or `metadata.resourceVersion` is not the stored object's.
    pub(crate) fn precondition(
        resource: &Resource,
        subresource: &str,
        key: &str,
        name: &str,
        field: &str,
        wanted: &str,
        found: &str,
    ) -> Self {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
        );
        Self::conflict(resource, subresource, name, &why)
    }

    /// An object that breaks the rules of its kind; `causes` must not be empty.
    pub(crate) fn invalid(resource: &Resource, name: &str, causes: Vec<FieldError>) -> Self {
        let list = listed(&causes);
        let message = if resource.group.is_empty() {
            format!("{} \"{name}\" is invalid: {list}", resource.kind)
        } else {
            format!("{}.{} \"{name}\" is invalid: {list}", resource.kind, resource.group)
        };
        let mut details = details(resource, name);
        // Real Invalid details name the kind, not the plural.
        details.kind = resource.kind.into();
        details.causes = causes.into_iter().map(FieldError::into_cause).collect();
        Self::about(422, "Invalid", message, details)
    }

    /// Broken rules that the server does not make a Status of itself: code 500 without a reason. Its `pods/binding` does
    /// so; `causes` must not be empty.
    pub(crate) fn unexplained(causes: &[FieldError]) -> Self {
        Self::new(500, "", listed(causes))
    }

    /// A body that does not fit the type of `resource`.
    pub(crate) fn not_of_kind(resource: &Resource, why: &str) -> Self {
        let Resource { kind, version, .. } = resource;
        Self::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"))
    }

    /// A dry run is refused: it would otherwise be carried out as a write.
    pub(crate) fn dry_run() -> Self {
        Self::bad_request("dryRun is not served by this server")
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// What an admission plugin refuses.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// A patch that parses but cannot be applied, such as a failed JSON patch `test`.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// A resourceVersion that the server no longer keeps.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A resourceVersion that the server has not reached.
    pub(crate) fn too_new(wanted: u64, current: u64) -> Self {
        Self::new(504, "Timeout", format!("Too large resource version: {wanted}, current: {current}"))
    }

    pub(crate) fn unavailable() -> Self {
        Self::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    pub(crate) fn unsupported_media_type(content_type: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - {content_type} is none of: \
             application/json-patch+json, application/merge-patch+json, \
             application/strategic-merge-patch+json, application/apply-patch+yaml"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The client accepts protobuf only, and this kind is answered in JSON only.
    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Self::new(406, "NotAcceptable", message)
    }

    /// The failure as a Status object.
    pub(crate) fn to_status(&self) -> Value {
        let mut status = json!(self.0);
        if let Value::Object(fields) = &mut status {
            fields.insert("kind".into(), "Status".into());
            fields.insert("apiVersion".into(), "v1".into());
            fields.entry("metadata").or_insert_with(|| json!({}));
        }
        status
    }

    fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self(Status::failure(&message.into(), reason).with_code(code).boxed())
    }

    fn about(code: u16, reason: &str, message: String, details: StatusDetails) -> Self {
        Self(Status::failure(&message, reason).with_code(code).with_details(details).boxed())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.0.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (code, Json(self.to_status())).into_response()
    }
}

/// One broken rule of one field, worded as apimachinery's field errors are.
#[derive(Debug)]
pub(crate) struct FieldError {
    field: String,
    reason: &'static str,
    text: String,
}

impl FieldError {
    /// `value` is shown as it is: quote it if it is text.
    pub(crate) fn invalid(field: impl Into<String>, value: impl std::fmt::Display, why: &str) -> Self {
        let text = format!("Invalid value: {value}: {why}");
        Self { field: field.into(), reason: "FieldValueInvalid", text }
    }

    pub(crate) fn required(field: impl Into<String>, why: &str) -> Self {
        let text = if why.is_empty() { "Required value".into() } else { format!("Required value: {why}") };
        Self { field: field.into(), reason: "FieldValueRequired", text }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &str) -> Self {
        let text = format!("Duplicate value: {value:?}");
        Self { field: field.into(), reason: "FieldValueDuplicate", text }
    }

    pub(crate) fn not_supported(field: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        let text = format!("Unsupported value: {value:?}: supported values: {}", supported.join(", "));
        Self { field: field.into(), reason: "FieldValueNotSupported", text }
    }

    pub(crate) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self { field: field.into(), reason: "FieldValueForbidden", text: format!("Forbidden: {why}") }
    }

    fn into_cause(self) -> StatusCause {
        StatusCause { reason: self.reason.into(), message: self.text, field: self.field }
    }
}

/// The broken rules as one text.
fn listed(causes: &[FieldError]) -> String {
    let texts: Vec<String> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.text)).collect();
    if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }
}

fn details(resource: &Resource, name: &str) -> StatusDetails {
    StatusDetails {
        name: name.into(),
        group: resource.group.into(),
        kind: resource.plural.into(),
        uid: String::new(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}
