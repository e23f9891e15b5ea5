//! What objects of every kind have in common, and the answers that hold them
//! (k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto).

use std::collections::BTreeMap;

use axum::body::Bytes;
use jiff::Timestamp;
use prost::Message;

/// An object's metadata; without `managedFields` above all, which can be half of an object.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ObjectMeta {
    /// Name, unique in the namespace.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// Namespace, empty for nodes.
    #[prost(string, tag = "3")]
    pub(crate) namespace: String,
    /// UID.
    #[prost(string, tag = "5")]
    pub(crate) uid: String,
    /// What a watch is taken up from.
    #[prost(string, tag = "6")]
    pub(crate) resource_version: String,
    /// Labels.
    #[prost(btree_map = "string, string", tag = "11")]
    pub(crate) labels: BTreeMap<String, String>,
    /// Annotations. The API server does not look at their values, so they may be any bytes.
    #[prost(btree_map = "string, bytes", tag = "12")]
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
}

/// A page of a list.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct List {
    /// Where it ends.
    #[prost(message, optional, tag = "1")]
    pub(crate) metadata: Option<ListMeta>,
    /// The objects, each to be read by itself.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) items: Vec<Bytes>,
}

/// A list's metadata.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMeta {
    /// What a watch of the changes since is to begin from.
    #[prost(string, tag = "2")]
    pub(crate) resource_version: String,
    /// Asks for the next page; empty on the last one.
    #[prost(string, tag = "3")]
    pub(crate) continue_token: String,
}

/// Why the API server did not do what it was asked.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    /// In words, with what was asked in them.
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) message: Vec<u8>,
    /// As an HTTP status.
    #[prost(int32, tag = "6")]
    pub(crate) code: i32,
}

/// One frame of a watch.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    /// What it is about.
    #[prost(message, optional, tag = "2")]
    pub(crate) object: Option<RawExtension>,
}

/// An object inside of another one, wrapped as in a body.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) raw: Bytes,
}

/// A time, of which JSON shows whole seconds. Kubernetes writes no time as an empty one.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Time {
    /// Since 1970.
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
}

impl Time {
    /// As JSON has it: RFC 3339 in UTC. `None` for no time, and outside of what that can say.
    pub(crate) fn text(self) -> Option<String> {
        if self.seconds == 0 {
            return None;
        }
        Timestamp::from_second(self.seconds).ok().map(|time| time.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_text_that_json_has() {
        let text = |seconds| Time { seconds }.text();
        assert_eq!(text(1_795_348_800).as_deref(), Some("2026-11-22T12:00:00Z"));
        assert_eq!(text(i64::MAX), None);
        assert_eq!(text(0), None);
    }
}
