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

use super::gap::Gap;
use super::timeouts::{
    DOUBTED_SECONDS, EARLY, LONGEST_ANSWER, OVERDUE, SETTLED, SHORTEST_WATCH, watch_seconds,
};
use super::{Collection, Reason, Source};
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
    /// How long the API server was asked to let it last.
    lasts: Duration,
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
                    // That it has begun says nothing of what has happened: whoever answers may know nothing.
                    self.open.insert(Open::begin(source, &self.version).await?)
                }
            };
            let frame = if source.gap.is_open() {
                let Ok(frame) = timeout_at(open.settled, open.next(&source.gap)).await else {
                    source.gap.close();
                    continue;
                };
                frame?
            } else {
                open.next(&source.gap).await?
            };
            // The time is over, the API server has ended the watch as it was asked to, or the connection broke.
            let Some(frame) = frame else {
                if open.asked.elapsed() < SHORTEST_WATCH {
                    reached("runtime: watch ended at once");
                    return Err(Reason::EndedAtOnce);
                }
                // Watches that break one after the other say no more than one without an end.
                if source.gap.silent_for() > Some(longest_silence(&source.collection)) {
                    return Err(silent(&source.gap));
                }
                reached("runtime: watch taken up again");
                self.open = None;
                continue;
            };
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
        let is_doubted = source.gap.silent_since().is_some();
        let longest = source.collection.watch_seconds;
        let longest = if is_doubted { longest.min(DOUBTED_SECONDS) } else { longest };
        let (asked, seconds) = (Instant::now(), watch_seconds(&source.system, longest));
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
        let (began, lasts) = (Instant::now(), Duration::from_secs(seconds.into()));
        let (settled, end) = (began + SETTLED, began + lasts + OVERDUE);
        Ok(Self { frames: source.encoding.frames(Box::pin(body)), asked, lasts, settled, end })
    }

    /// The next frame; `None` where the watch has ended.
    async fn next(&mut self, gap: &Gap) -> Result<Option<Bytes>, Reason> {
        match timeout_at(self.end, self.frames.next()).await {
            Ok(Some(Ok(frame))) => {
                gap.heard();
                Ok(Some(frame))
            }
            Ok(Some(Err(error))) if error.kind() == io::ErrorKind::InvalidData => {
                Err(CallError::from(Unreadable::TooLong).into())
            }
            Ok(Some(Err(_))) => Ok(None),
            Ok(None) => {
                // An end at its time says that nothing has happened; an earlier one may be that of something in between.
                if self.asked.elapsed() + EARLY >= self.lasts {
                    gap.heard();
                }
                Ok(None)
            }
            Err(_) => Err(silent(gap)),
        }
    }
}

/// How long a watch of the collection says nothing at most: it ends, or breaks, and the next one begins.
fn longest_silence(collection: &Collection) -> Duration {
    Duration::from_secs(collection.watch_seconds.into()) + OVERDUE
}

/// Nothing was heard for longer than a watch lasts.
fn silent(gap: &Gap) -> Reason {
    reached("runtime: watch silent");
    gap.is_silent();
    Reason::Silent
}

/// Counts that a watch cannot begin at its version.
fn count(error: &CallError) {
    if let CallError::Status { code: 410, .. } = error {
        reached("runtime: watch too old to begin");
    }
}
