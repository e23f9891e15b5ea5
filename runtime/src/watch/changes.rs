//! The changes after a list: a watch that is taken up again where it ended, for as long as that works.

use std::io;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use kube::api::WatchParams;
use kube::core::Request;
use kube::runtime::watcher::Event;
use prost::bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::io::StreamReader;

use super::timeouts::{LONGEST_ANSWER, OVERDUE, SETTLED, SHORTEST_WATCH, watch_seconds};
use super::{Reason, Source};
use crate::branches::reached;
use crate::calls::{CallError, send};
use crate::encoding::{Encoding, Unreadable, WatchEvent};

/// The changes after a version.
pub(super) struct Changes {
    /// Everything up to this version was told.
    version: String,
    open: Option<Open>,
}

/// A watch that the API server has begun.
struct Open {
    frames: BoxStream<'static, io::Result<Bytes>>,
    asked: Instant,
    /// What had happened before it began has been told by then.
    settled: Instant,
    /// Nothing comes over a connection that leads nowhere any more, not even its end.
    end: Instant,
}

impl Changes {
    pub(super) fn since(version: String) -> Self {
        Self { version, open: None }
    }

    pub(super) async fn next<K, E: Encoding<K>>(&mut self, source: &Source<E>) -> Result<Event<K>, Reason> {
        loop {
            let open = match &mut self.open {
                Some(open) => open,
                None => {
                    source.gap.open();
                    let open = Open::begin(source, &self.version).await?;
                    source.gap.heard();
                    self.open.insert(open)
                }
            };
            let frame = if source.gap.is_open() {
                let Ok(frame) = timeout_at(open.settled, open.next()).await else {
                    source.gap.close();
                    continue;
                };
                frame?
            } else {
                open.next().await?
            };
            // The time is over, the API server has ended the watch as it was asked to, or the connection broke.
            let Some(frame) = frame else {
                if open.asked.elapsed() < SHORTEST_WATCH {
                    reached("runtime: watch ended at once");
                    return Err(Reason::EndedAtOnce);
                }
                reached("runtime: watch taken up again");
                self.open = None;
                continue;
            };
            source.gap.heard();
            let (event, version) = match source.encoding.event(frame).map_err(CallError::from)? {
                WatchEvent::Applied(object, version) => (Some(Event::Apply(object)), version),
                WatchEvent::Deleted(object, version) => (Some(Event::Delete(object)), version),
                WatchEvent::Bookmark(version) => (None, version),
                WatchEvent::Error { code, message } => {
                    reached("runtime: watch ended with an error");
                    return Err(CallError::Status { code, message }.into());
                }
            };
            self.version = version;
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }
}

impl Open {
    async fn begin<K, E: Encoding<K>>(source: &Source<E>, version: &str) -> Result<Self, CallError> {
        let (asked, seconds) = (Instant::now(), watch_seconds(&source.system));
        let mut parameters = WatchParams::default().timeout(seconds);
        parameters.field_selector.clone_from(&source.collection.field_selector);
        let request = Request::new(&source.collection.path).watch(&parameters, version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let answer = timeout(LONGEST_ANSWER, send(&source.client, request, E::MEDIA_TYPE)).await;
        let answer = answer.unwrap_or_else(|_| {
            reached("runtime: watch not answered");
            Err(CallError::NotAnswered)
        });
        let body = answer.inspect_err(count)?.into_body().into_data_stream();
        let body = StreamReader::new(body.map_err(io::Error::other));
        let began = Instant::now();
        let (settled, end) = (began + SETTLED, began + Duration::from_secs(seconds.into()) + OVERDUE);
        Ok(Self { frames: source.encoding.frames(Box::pin(body)), asked, settled, end })
    }

    /// The next frame; `None` where the watch has ended.
    async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        match timeout_at(self.end, self.frames.next()).await {
            Ok(Some(Ok(frame))) => Ok(Some(frame)),
            Ok(Some(Err(error))) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Unreadable::TooLong.into())
            }
            Ok(Some(Err(_)) | None) => Ok(None),
            Err(_) => {
                reached("runtime: watch silent");
                Ok(None)
            }
        }
    }
}

/// Counts that a watch cannot begin at its version.
fn count(error: &CallError) {
    if let CallError::Status { code: 410, .. } = error {
        reached("runtime: watch too old to begin");
    }
}
