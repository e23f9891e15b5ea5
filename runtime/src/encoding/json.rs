//! Objects as JSON.

use std::io;
use std::pin::Pin;

use futures::stream::{BoxStream, StreamExt as _};
use kube::core::{Resource, Status};
use prost::bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::AsyncRead;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};

use super::{Encoding, LONGEST_FRAME, Page, Unreadable, WatchEvent, required_version};

/// Reads objects from JSON. `K` need not be the whole object: fields that it has no name for are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Json;

#[derive(Deserialize)]
struct List<K> {
    metadata: ListMeta,
    #[serde(default = "Vec::new")]
    items: Vec<K>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: String,
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// All that a bookmark has of its object.
#[derive(Deserialize)]
struct Bookmark {
    metadata: ListMeta,
}

impl<K> Encoding<K> for Json
where
    K: Resource + DeserializeOwned + Send + 'static,
{
    const MEDIA_TYPE: &'static str = "application/json";

    fn object(&self, body: Bytes) -> Result<K, Unreadable> {
        Ok(serde_json::from_slice(&body)?)
    }

    fn page(&self, body: Bytes) -> Result<Page<K>, Unreadable> {
        let List { metadata, items } = serde_json::from_slice(&body)?;
        let ListMeta { resource_version, r#continue: continue_token } = metadata;
        Ok(Page { items: Box::new(items.into_iter().map(Ok)), resource_version, continue_token })
    }

    fn frames(&self, body: Pin<Box<dyn AsyncRead + Send>>) -> BoxStream<'static, io::Result<Bytes>> {
        let newline = b"\n".to_vec();
        let lines = AnyDelimiterCodec::new_with_max_length(newline.clone(), newline, LONGEST_FRAME);
        let frames = FramedRead::new(body, lines).map(|line| {
            line.map_err(|error| match error {
                AnyDelimiterCodecError::MaxChunkLengthExceeded => {
                    io::Error::new(io::ErrorKind::InvalidData, error)
                }
                AnyDelimiterCodecError::Io(error) => error,
            })
        });
        frames.boxed()
    }

    fn event(&self, frame: Bytes) -> Result<WatchEvent<K>, Unreadable> {
        let Event { r#type, object } = serde_json::from_slice(&frame)?;
        let object = object.get();
        let with_version = || {
            let object: K = serde_json::from_str(object)?;
            let version = required_version(object.meta().resource_version.clone())?;
            Ok::<_, Unreadable>((object, version))
        };
        match r#type {
            "ADDED" | "MODIFIED" => {
                with_version().map(|(object, version)| WatchEvent::Applied(object, version))
            }
            "DELETED" => with_version().map(|(object, version)| WatchEvent::Deleted(object, version)),
            "BOOKMARK" => {
                let Bookmark { metadata } = serde_json::from_str(object)?;
                Ok(WatchEvent::Bookmark(required_version(Some(metadata.resource_version))?))
            }
            _ => {
                let Status { code, message, .. } = serde_json::from_str(object)?;
                Ok(WatchEvent::Error { code, message })
            }
        }
    }
}
