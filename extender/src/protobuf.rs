//! Kubernetes' protobuf, which kube-scheduler too speaks with the API server: the wrapping that every object has. The
//! objects stand in the modules below. Used by [`crate::api`], [`crate::objects`], [`crate::binding`] and the watches.
//!
//! Written down are the fields that are used here (k8s.io/api/core/v1/generated.proto and
//! k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}/generated.proto); their numbers never change. What else an object
//! has is skipped by its length while it is read, where JSON would have to be read to its end.
//!
//! What nobody has checked to be text is read as bytes: a pod's author must not be able to write a list that cannot be
//! read.

pub(crate) mod core;
pub(crate) mod meta;

use axum::body::Bytes;
use prost::Message;

pub(crate) use self::core::{Binding, Container, Node, ObjectReference, Pod, PodSpec, PodStatus};
pub(crate) use self::meta::{List, ObjectMeta, Status, Time, WatchEvent};

/// What such a body is called.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// A kind of object that can be read, listed and watched.
pub(crate) trait Object: Message + Default {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
}

/// Bytes that are not the object they should be.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NotRead {
    /// Another encoding.
    #[error("it does not begin as Kubernetes' protobuf does")]
    NoMagic,
    /// Longer than any object is.
    #[error("it is longer than any object is")]
    TooLong,
    /// Without what the next watch would begin from.
    #[error("it has no resourceVersion")]
    NoVersion,
    /// Cut short, or no protobuf.
    #[error(transparent)]
    Malformed(#[from] prost::DecodeError),
}

/// The bytes as text, as JSON would have them: what is not UTF-8 is replaced.
pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The object of this kind in v1, as a body.
pub(crate) fn wrap(kind: &str, object: &impl Message) -> Vec<u8> {
    let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: kind.to_owned() };
    let wrapped = Wrapped { type_meta: Some(type_meta), raw: object.encode_to_vec() };
    [MAGIC, &wrapped.encode_to_vec()].concat()
}

/// The object in a body, whatever kind it says to be.
pub(crate) fn unwrap<T: Message + Default>(body: Bytes) -> Result<T, NotRead> {
    if !body.starts_with(MAGIC) {
        return Err(NotRead::NoMagic);
    }
    let Unwrapped { raw } = Unwrapped::decode(body.slice(MAGIC.len()..))?;
    Ok(T::decode(raw)?)
}

/// An object of any kind, to be sent.
#[derive(Clone, PartialEq, Message)]
struct Wrapped {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

/// The same, received: the kind is known from what was asked.
#[derive(Clone, PartialEq, Message)]
struct Unwrapped {
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
