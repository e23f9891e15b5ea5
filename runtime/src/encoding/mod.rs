//! How objects stand in the bodies that the API server answers: as JSON, or as Kubernetes' protobuf. Used by the calls and
//! by the list-and-watch, which are the same for both.

mod json;
pub mod protobuf;

use std::io;
use std::pin::Pin;

use futures::stream::BoxStream;
use prost::bytes::Bytes;
use tokio::io::AsyncRead;

pub use json::Json;

/// Longest frame of a watch, in bytes. etcd holds objects of at most 1.5 MB.
const LONGEST_FRAME: usize = 16 << 20;

/// Reads objects of type `K` from bodies.
pub trait Encoding<K>: Send + Sync + 'static {
    /// The media type to ask for in `Accept`.
    const MEDIA_TYPE: &'static str;

    /// The one object in a body.
    ///
    /// # Errors
    /// The bytes are not such an object.
    fn object(&self, body: Bytes) -> Result<K, Unreadable>;

    /// The page of a list in a body.
    ///
    /// # Errors
    /// The bytes are not a list. An item that cannot be read is an error of its own, when it is reached.
    fn page(&self, body: Bytes) -> Result<Page<K>, Unreadable>;

    /// A watch's body in frames, one for each event. A frame that is too long is an error of kind `InvalidData`; any other
    /// error is the connection's.
    fn frames(&self, body: Pin<Box<dyn AsyncRead + Send>>) -> BoxStream<'static, io::Result<Bytes>>;

    /// The event in a frame.
    ///
    /// # Errors
    /// The bytes are not an event, or its object has no resourceVersion.
    fn event(&self, frame: Bytes) -> Result<WatchEvent<K>, Unreadable>;
}

/// The items of a page, each read when it is asked for.
pub type Items<K> = Box<dyn Iterator<Item = Result<K, Unreadable>> + Send>;

/// A page of a list.
pub struct Page<K> {
    /// The page's objects, in the API server's order.
    pub items: Items<K>,
    /// The version of the collection that the list shows; empty if the API server does not say.
    pub resource_version: String,
    /// Asks for the next page; empty on the last one.
    pub continue_token: String,
}

/// What a watch says. A version is the resourceVersion from which the watch can go on after this event.
#[derive(Debug, PartialEq)]
pub enum WatchEvent<K> {
    /// The object was added or modified.
    Applied(K, String),
    /// The object is gone, or no longer selected.
    Deleted(K, String),
    /// Nothing before this version is missing.
    Bookmark(String),
    /// The watch cannot go on.
    Error {
        /// HTTP status, 0 if there is none.
        code: u16,
        /// Why.
        message: String,
    },
}

/// Why bytes could not be read as what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is in another encoding.
    #[error("it does not begin as Kubernetes' protobuf does")]
    NoMagic,
    /// It is longer than any object can be.
    #[error("it is longer than any object is")]
    TooLong,
    /// A watch could not go on from there.
    #[error("it has no resourceVersion")]
    NoVersion,
    /// Cut short, or no protobuf.
    #[error(transparent)]
    Protobuf(#[from] prost::DecodeError),
    /// Cut short, no JSON, or not the JSON of this kind.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The version, which must be there: without one a watch would begin anywhere.
pub(crate) fn required_version(version: Option<String>) -> Result<String, Unreadable> {
    version.filter(|version| !version.is_empty()).ok_or(Unreadable::NoVersion)
}
