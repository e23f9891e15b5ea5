//! A Binding as it is sent.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::{DecodeError, Message};

use super::{MAGIC, TypeMeta, Unknown};

/// The Binding in a request's body; an error says what is wrong with it.
pub(in crate::api) fn binding(body: &[u8]) -> Result<Binding, String> {
    let refused = |error: DecodeError| error.to_string();
    let object = body.strip_prefix(MAGIC).ok_or("it does not begin as Kubernetes' protobuf does")?;
    let Unknown { type_meta: TypeMeta { api_version, kind }, raw } =
        Unknown::decode(object).map_err(refused)?;
    if (api_version.as_str(), kind.as_str()) != ("v1", "Binding") {
        return Err(format!("it is a {api_version} {kind}"));
    }
    let Sent { metadata, target } = Sent::decode(raw).map_err(refused)?;
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
    use super::*;

    #[test]
    fn what_is_no_binding_is_refused() {
        let pod = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x00";
        assert_eq!(binding(pod).unwrap_err(), "it is a v1 Pod");
        assert_eq!(binding(b"{}").unwrap_err(), "it does not begin as Kubernetes' protobuf does");
        assert!(binding(b"k8s\0\xff").is_err());
    }
}
