//! Kubernetes' protobuf, which may be sent and asked for instead of JSON: Bindings are read, pods and nodes are answered.
//! Called by [`super::binding`] and, for every answer, by the routes.
//!
//! The fields stand here a second time on purpose: read and written with the extender's own definitions, a wrong number
//! in them would go unseen.

mod answer;
mod binding;
mod page;
mod schema;
mod write;

use prost::Message;
use prost::bytes::Bytes;

pub(super) use self::answer::answer_as_asked;
pub(super) use self::binding::binding;
pub use self::page::{continue_token, with_continue_token};

/// An object of this kind, without what tells its kind; empty if the kind is not answered in protobuf.
pub(crate) fn raw(kind: &str, object: &serde_json::Value) -> Vec<u8> {
    schema::of(kind).map(|fields| write::message(object, fields)).unwrap_or_default()
}

/// The content type of such bodies.
pub(super) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// An object of any kind.
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
