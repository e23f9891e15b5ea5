//! Objects as Kubernetes' protobuf, which the API server has ready for kube-scheduler: an event as JSON costs it more
//! (docs/performance.md).
//!
//! The wrapping that every object has stands here (k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}/generated.proto). The
//! objects are the caller's, with the fields that it uses: what else an object has is skipped by its length.
//!
//! What the API server does not check to be text has to be read as bytes. A pod's author must not be able to write
//! something that makes the whole list unreadable, which is what the messages of the crate `k8s-pb` would let happen.

use std::io;
use std::pin::Pin;

use futures::stream::{BoxStream, StreamExt as _};
use prost::Message;
use prost::bytes::{Bytes, BytesMut};
use tokio::io::AsyncRead;
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use super::{Encoding, LONGEST_FRAME, Page, Unreadable, WatchEvent, required_version};

/// The media type of such bodies.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Reads objects from protobuf.
#[derive(Clone, Copy, Debug)]
pub struct Protobuf;

/// An object that can be listed and watched.
pub trait Object: Message + Default + 'static {
    /// Its `metadata.resourceVersion`.
    fn resource_version(&self) -> &str;
}

/// The bytes as text, as JSON would have them: what is not UTF-8 is replaced.
pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The object of this kind in `v1`, as a body.
pub fn wrap(kind: &str, object: &impl Message) -> Vec<u8> {
    let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: kind.to_owned() };
    let wrapped = Unknown { type_meta: Some(type_meta), raw: object.encode_to_vec().into() };
    [MAGIC, &wrapped.encode_to_vec()].concat()
}

/// The object in a body, whatever kind it says to be.
fn unwrap<T: Message + Default>(body: &Bytes) -> Result<T, Unreadable> {
    if !body.starts_with(MAGIC) {
        return Err(Unreadable::NoMagic);
    }
    let Unknown { raw, .. } = Unknown::decode(body.slice(MAGIC.len()..))?;
    Ok(T::decode(raw)?)
}

/// The message of a Status in a body; `None` if it is something else.
pub(crate) fn status_message(body: &Bytes) -> Option<String> {
    unwrap(body).ok().map(|Status { message, .. }| text(message))
}

impl<K: Object> Encoding<K> for Protobuf {
    const MEDIA_TYPE: &'static str = MEDIA_TYPE;

    fn object(&self, body: Bytes) -> Result<K, Unreadable> {
        unwrap(&body)
    }

    fn page(&self, body: Bytes) -> Result<Page<K>, Unreadable> {
        let List { metadata, items } = unwrap(&body)?;
        let ListMeta { resource_version, continue_token } = metadata.unwrap_or_default();
        let items = items.into_iter().map(|item| K::decode(item).map_err(Unreadable::from));
        Ok(Page { items: Box::new(items), resource_version, continue_token })
    }

    fn frames(&self, body: Pin<Box<dyn AsyncRead + Send>>) -> BoxStream<'static, io::Result<Bytes>> {
        let frames = LengthDelimitedCodec::builder().max_frame_length(LONGEST_FRAME).new_codec();
        FramedRead::new(body, frames).map(|frame| frame.map(BytesMut::freeze)).boxed()
    }

    fn event(&self, frame: Bytes) -> Result<WatchEvent<K>, Unreadable> {
        let RawEvent { kind, object } = RawEvent::decode(frame)?;
        let object = object.unwrap_or_default().raw;
        if !matches!(kind.as_str(), "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK") {
            let Status { message, code } = unwrap(&object)?;
            return Ok(WatchEvent::Error {
                code: u16::try_from(code).unwrap_or_default(),
                message: text(message),
            });
        }
        let object: K = unwrap(&object)?;
        let version = required_version(Some(object.resource_version().to_owned()))?;
        Ok(match kind.as_str() {
            "DELETED" => WatchEvent::Deleted(object, version),
            "BOOKMARK" => WatchEvent::Bookmark(version),
            _ => WatchEvent::Applied(object, version),
        })
    }
}

/// An object of any kind.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
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

/// A page of a list. The items stay where they are in the body until they are read one by one.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct List {
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMeta {
    #[prost(string, tag = "2")]
    pub(crate) resource_version: String,
    #[prost(string, tag = "3")]
    pub(crate) continue_token: String,
}

/// Why the API server did not do what it was asked. The message quotes what was asked, so it may be any bytes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) message: Vec<u8>,
    #[prost(int32, tag = "6")]
    pub(crate) code: i32,
}

/// One frame of a watch; the object is wrapped as in a body.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawEvent {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) raw: Bytes,
}
