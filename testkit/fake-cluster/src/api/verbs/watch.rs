//! A watch: the changes after a resourceVersion, as a stream of JSON lines. It is told by the store what concerns it, so a
//! slow watcher loses nothing until that is no longer kept; then it gets 410 Gone.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::Stream;
use futures::stream;
use runtime::reached;
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::selector::Filter;
use crate::api::error::ApiError;
use crate::api::kinds::table::{Collection, Resource};
use crate::api::reply;
use crate::api::store::{BadStart, Change, News, Store, Stored, Subscription};

/// How many changes go into one chunk at most.
const CHUNK: usize = 256;
/// How often an idle watch gets a bookmark, as in the real server.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// What a watch request asks for.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    pub(crate) resource: &'static Resource,
    pub(crate) filter: Filter,
    /// `None`: begin with the present objects as ADDED events. 0: the same, with those `lag` versions ago.
    pub(crate) from: Option<u64>,
    pub(crate) lag: u64,
    /// Begin with the present objects and mark their end by a bookmark (streaming lists).
    pub(crate) send_initial_events: bool,
    pub(crate) bookmarks: bool,
    pub(crate) timeout: Option<Duration>,
}

/// Opens a watch. It ends at its timeout, when the server becomes unavailable, and when `closing` is cancelled.
pub(crate) fn open(
    store: Arc<Store>,
    options: WatchOptions,
    closing: CancellationToken,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
    let now = Instant::now();
    let mut watch = Watch {
        store,
        subscription: None,
        closing,
        pending_lines: Vec::new(),
        cursor: 0,
        deadline: options.timeout.map(|timeout| now + timeout),
        next_bookmark: options.bookmarks.then_some(now + BOOKMARK_PERIOD),
        options,
    };
    watch.begin();
    stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((Ok(Bytes::from(chunk)), watch))
    })
}

/// An open watch.
struct Watch {
    store: Arc<Store>,
    options: WatchOptions,
    /// None: the stream ends after the pending lines.
    subscription: Option<Subscription>,
    closing: CancellationToken,
    /// Lines to send before the next change.
    pending_lines: Vec<u8>,
    /// Changes up to this version have been sent or skipped.
    cursor: u64,
    deadline: Option<Instant>,
    /// None: it was not asked for.
    next_bookmark: Option<Instant>,
}

impl Watch {
    /// Sets where the watch begins.
    fn begin(&mut self) {
        let topic = self.options.filter.topic(self.options.resource);
        let store = self.store.clone();
        let mut state = store.lock();
        match self.options.from {
            Some(from) if from > 0 && !self.options.send_initial_events => self.cursor = from,
            from => {
                self.cursor =
                    if from == Some(0) { state.version_before(self.options.lag) } else { state.version() };
                if self.cursor < state.version() {
                    reached("cluster: a watch began with an older state");
                }
                let asked_for = |object: &_| self.options.filter.matches(object);
                let mut lines = Vec::new();
                for object in state.list_at(self.cursor, self.options.resource.collection, asked_for) {
                    self.write_object(&mut lines, "ADDED", &object);
                }
                if self.options.send_initial_events {
                    self.write_bookmark(&mut lines, true);
                }
                self.pending_lines = lines;
            }
        }
        match Subscription::new(&store, &mut state, topic, self.cursor) {
            Ok(subscription) => self.subscription = Some(subscription),
            Err(bad_start) => {
                reached("cluster: a watch could not begin at its version");
                self.fail(&bad_start);
            }
        }
    }

    /// The next lines, or `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if !self.pending_lines.is_empty() {
                return Some(std::mem::take(&mut self.pending_lines));
            }
            if self.closing.is_cancelled() {
                return None;
            }
            match self.subscription.as_ref()?.take(CHUNK) {
                News::Ended => {
                    reached("cluster: an outage ended a watch");
                    return None;
                }
                News::FellBehind { oldest } => {
                    reached("cluster: a watch fell behind what is kept");
                    self.fail(&BadStart::Compacted { oldest });
                }
                News::Changes(changes, version) => {
                    self.cursor = version;
                    if !changes.is_empty() {
                        self.pending_lines = self.write_changes(&changes);
                    } else if self.wake().is_some_and(|wake| wake <= Instant::now()) {
                        self.end_period();
                    } else {
                        self.wait().await;
                    }
                }
            }
        }
    }

    /// When the watch does something by itself.
    fn wake(&self) -> Option<Instant> {
        self.deadline.into_iter().chain(self.next_bookmark).min()
    }

    /// Sends the bookmark that is due, which is also the last line before a timeout.
    fn end_period(&mut self) {
        let wake = self.wake();
        if self.next_bookmark.is_some() {
            let mut lines = Vec::new();
            self.write_bookmark(&mut lines, false);
            self.pending_lines = lines;
            self.next_bookmark = wake.map(|wake| wake + BOOKMARK_PERIOD);
        }
        if self.deadline == wake {
            self.subscription = None;
        }
    }

    /// Waits until there may be something to tell.
    async fn wait(&self) {
        let Some(subscription) = &self.subscription else { return };
        // Nobody else may be there to notice that an event has ended.
        let is_of_events = self.options.resource.collection == Collection::Events;
        let expiry = if is_of_events { self.store.lock().next_expiry() } else { None };
        let expiry = async {
            match expiry {
                Some(expiry) => self.store.clock().sleep_until(expiry).await,
                None => pending().await,
            }
        };
        let time = async {
            match self.wake() {
                Some(wake) => sleep_until(wake).await,
                None => pending().await,
            }
        };
        // Whatever it is, the store is asked before anything is told.
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            () = subscription.changed() => {}
            () = expiry => {}
            () = time => {}
        }
    }

    /// Writes changes as events: an object that starts or ceases to match is added or deleted for this watcher.
    fn write_changes(&self, changes: &[Arc<Change>]) -> Vec<u8> {
        let mut lines = Vec::new();
        for change in changes {
            let matching = |object: &&Arc<Stored>| self.options.filter.matches(object);
            match (change.before.as_ref().filter(matching), change.after.as_ref().filter(matching)) {
                (None, Some(after)) => self.write_object(&mut lines, "ADDED", after),
                (Some(_), Some(after)) => self.write_object(&mut lines, "MODIFIED", after),
                (Some(_), None) => {
                    change.gone().iter().for_each(|gone| self.write_object(&mut lines, "DELETED", gone))
                }
                (None, None) => {}
            }
        }
        lines
    }

    /// Makes the error event the next and last thing that is sent.
    fn fail(&mut self, bad_start: &BadStart) {
        let error = match bad_start {
            BadStart::Compacted { oldest } => {
                ApiError::expired(format!("too old resource version: {} ({oldest})", self.cursor))
            }
            BadStart::Future { current } => ApiError::too_new(self.cursor, *current),
        };
        self.subscription = None;
        let mut lines = Vec::new();
        write_line(&mut lines, "ERROR", error.to_status().to_string().as_bytes());
        self.pending_lines = lines;
    }

    fn write_object(&self, lines: &mut Vec<u8>, kind: &str, object: &Stored) {
        let resource = self.options.resource;
        write_line(lines, kind, &reply::typed(resource, object.json(resource)));
    }

    fn write_bookmark(&self, lines: &mut Vec<u8>, ends_initial_events: bool) {
        let mut object = json!({"metadata": {"resourceVersion": self.cursor.to_string()}});
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let typed = reply::typed(self.options.resource, object.to_string().as_bytes());
        write_line(lines, "BOOKMARK", &typed);
    }
}

fn write_line(lines: &mut Vec<u8>, kind: &str, object: &[u8]) {
    lines.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes());
    lines.extend_from_slice(object);
    lines.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use serde_json::Value;

    use super::*;
    use crate::api::kinds::table::{NODES, PODS};
    use crate::api::store::{KEPT_CHANGES, Key};
    use crate::clock::Clock;
    use crate::version::Version;

    fn store() -> Arc<Store> {
        let store = Arc::new(Store::new(Clock::new(), Version::default()));
        write(&store, &NODES, 1);
        store
    }

    fn write(store: &Store, resource: &Resource, times: usize) {
        let mut state = store.lock();
        for _ in 0..times {
            state.insert(resource.collection, Key::new("", "n1"), json!({}));
        }
    }

    /// A watch of pods that tells from version 1 on, for a millisecond.
    fn watch(store: &Arc<Store>) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Unpin + use<> {
        let options = WatchOptions {
            resource: &PODS,
            filter: Filter::parse(&PODS, None, "", "").unwrap(),
            from: Some(1),
            lag: 0,
            send_initial_events: false,
            bookmarks: true,
            timeout: Some(Duration::from_millis(1)),
        };
        Box::pin(open(store.clone(), options, CancellationToken::new()))
    }

    #[tokio::test]
    async fn a_watcher_that_falls_behind_the_kept_changes_gets_410_and_ends() {
        let store = store();
        let (mut slow, mut just_in_time) = (watch(&store), watch(&store));
        write(&store, &PODS, KEPT_CHANGES);
        let line = just_in_time.next().await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&line).contains("ADDED"));
        write(&store, &PODS, 1);
        let line: Value = serde_json::from_slice(&slow.next().await.unwrap().unwrap()).unwrap();
        assert_eq!((&line["type"], &line["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert!(slow.next().await.is_none());
    }

    #[tokio::test]
    async fn a_watcher_that_had_nothing_to_be_told_has_not_fallen_behind() {
        let store = store();
        let mut of_pods = watch(&store);
        write(&store, &NODES, KEPT_CHANGES + 1);
        let line: Value = serde_json::from_slice(&of_pods.next().await.unwrap().unwrap()).unwrap();
        assert_eq!(line["type"], "BOOKMARK");
        let newest = (KEPT_CHANGES + 2).to_string();
        assert_eq!(line["object"]["metadata"]["resourceVersion"], newest);
    }
}
