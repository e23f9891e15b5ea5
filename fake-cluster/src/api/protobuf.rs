//! A Binding as Kubernetes' protobuf, which kube-scheduler and the extender may send instead of JSON. Called by
//! [`super::routes`].

use std::collections::BTreeMap;

use axum::body::Bytes;
use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::{DecodeError, Message};

use super::error::ApiError;

/// The content type of such bodies.
pub(super) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The Binding in a request's body; an error says what else it is.
pub(super) fn binding(body: &Bytes) -> Result<Binding, ApiError> {
    let refused = |error: DecodeError| {
        ApiError::bad_request(format!("Binding in version \"v1\" cannot be handled as a Binding: {error}"))
    };
    let Some(object) = body.strip_prefix(b"k8s\0") else {
        return Err(ApiError::bad_request(
            "provided data does not appear to be a protobuf message".to_owned(),
        ));
    };
    let object = Unknown::decode(object).map_err(refused)?;
    if object.type_meta != (TypeMeta { api_version: "v1".to_owned(), kind: "Binding".to_owned() }) {
        let TypeMeta { api_version, kind } = object.type_meta;
        let why = format!("the object in the data ({api_version} {kind}) is no v1 Binding");
        return Err(ApiError::bad_request(why));
    }
    let Sent { metadata, target } = Sent::decode(object.raw).map_err(refused)?;
    let set = |text: String| (!text.is_empty()).then_some(text);
    Ok(Binding {
        metadata: ObjectMeta {
            name: set(metadata.name),
            namespace: set(metadata.namespace),
            uid: set(metadata.uid),
            resource_version: set(metadata.resource_version),
            labels: Some(metadata.labels),
            annotations: Some(metadata.annotations),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: set(target.kind),
            name: set(target.name),
            ..ObjectReference::default()
        },
    })
}

#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, required, tag = "1")]
    type_meta: TypeMeta,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct Sent {
    #[prost(message, required, tag = "1")]
    metadata: SentMetadata,
    #[prost(message, required, tag = "2")]
    target: SentTarget,
}

#[derive(Clone, PartialEq, Message)]
struct SentMetadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct SentTarget {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    #[test]
    fn what_is_no_binding_is_refused() {
        let pod = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00".as_slice();
        for body in [b"{}".as_slice(), b"k8s\0\xff", pod] {
            let refused = binding(&Bytes::from_static(body)).unwrap_err();
            assert_eq!(refused.into_response().status(), 400, "{body:?}");
        }
    }
}
