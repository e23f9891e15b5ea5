//! A watch: the changes after a resourceVersion, as a stream of JSON lines. It reads the changes that the store keeps, so a
//! slow watcher loses nothing until they are dropped; then it gets 410 Gone.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures::Stream;
use futures::stream;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::selector::Filter;
use crate::api::error::ApiError;
use crate::api::kinds::event;
use crate::api::kinds::table::Resource;
use crate::api::reply::Typed;
use crate::api::store::{BadStart, Change, Progress, Store, stamp};

/// How many changes go into one chunk at most.
const CHUNK: usize = 256;
/// How often an idle watch gets a bookmark, as in the real server.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// What a watch request asks for.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    pub(crate) resource: &'static Resource,
    pub(crate) filter: Filter,
    /// `None` or 0: begin with the present objects as ADDED events.
    pub(crate) from: Option<u64>,
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
    let mut progress = store.progress();
    let outages = progress.borrow_and_update().outages;
    let now = Instant::now();
    let mut watch = Watch {
        store,
        progress,
        outages,
        closing,
        pending_lines: Vec::new(),
        cursor: 0,
        is_over: false,
        deadline: options.timeout.map(|timeout| now + timeout),
        next_bookmark: now + BOOKMARK_PERIOD,
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
    progress: Receiver<Progress>,
    outages: u64,
    closing: CancellationToken,
    /// Lines to send before the next change.
    pending_lines: Vec<u8>,
    /// Changes up to this version have been sent or skipped.
    cursor: u64,
    /// Whether the stream ends after the pending lines.
    is_over: bool,
    deadline: Option<Instant>,
    next_bookmark: Instant,
}

impl Watch {
    /// Sets where the watch begins.
    fn begin(&mut self) {
        let store = self.store.clone();
        let state = store.lock();
        let from = self.options.from.filter(|from| *from > 0);
        match from {
            Some(from) if !self.options.send_initial_events => {
                self.cursor = from;
                if let Err(bad_start) = state.check_start(from) {
                    self.fail(&bad_start);
                }
            }
            _ => {
                self.cursor = state.version();
                let mut lines = Vec::new();
                let present = state.list(self.options.resource.collection);
                for object in present.filter(|object| self.options.filter.matches(object)) {
                    self.write_object(&mut lines, "ADDED", object);
                }
                if self.options.send_initial_events {
                    self.write_bookmark(&mut lines, true);
                }
                self.pending_lines = lines;
            }
        }
    }

    /// The next lines, or `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        if !self.pending_lines.is_empty() {
            return Some(std::mem::take(&mut self.pending_lines));
        }
        loop {
            if self.is_over || self.closing.is_cancelled() {
                return None;
            }
            if self.progress.borrow_and_update().outages != self.outages {
                return None;
            }
            let changes = self.store.lock().changes(self.cursor, CHUNK);
            match changes {
                Err(bad_start) => {
                    self.fail(&bad_start);
                    return Some(std::mem::take(&mut self.pending_lines));
                }
                Ok(changes) if !changes.is_empty() => {
                    let lines = self.write_changes(&changes);
                    if !lines.is_empty() {
                        return Some(lines);
                    }
                }
                Ok(_) => {
                    if let Some(bookmark) = self.wait().await {
                        return Some(bookmark);
                    }
                }
            }
        }
    }

    /// Waits for a change. Gives a bookmark when one is due, which is also the last line before a timeout.
    async fn wait(&mut self) -> Option<Vec<u8>> {
        let wake = self.deadline.map_or(self.next_bookmark, |deadline| deadline.min(self.next_bookmark));
        // Nothing more is told once the server ends; what has changed is told before time runs out.
        tokio::select! {
            biased;
            () = self.closing.cancelled() => return None,
            changed = self.progress.changed() => {
                self.is_over = changed.is_err();
                return None;
            }
            () = tokio::time::sleep_until(wake) => {}
        }
        self.is_over = self.deadline == Some(wake);
        self.next_bookmark = wake + BOOKMARK_PERIOD;
        let mut lines = Vec::new();
        if self.options.bookmarks {
            self.write_bookmark(&mut lines, false);
        }
        (!lines.is_empty()).then_some(lines)
    }

    /// Writes changes as events: an object that starts or ceases to match is added or deleted for this watcher.
    fn write_changes(&mut self, changes: &[Arc<Change>]) -> Vec<u8> {
        let mut lines = Vec::new();
        for change in changes {
            self.cursor = change.version;
            if change.collection != self.options.resource.collection {
                continue;
            }
            let matching = |object: &&Arc<Value>| self.options.filter.matches(object);
            match (change.before.as_ref().filter(matching), change.after.as_ref().filter(matching)) {
                (None, Some(after)) => self.write_object(&mut lines, "ADDED", after),
                (Some(_), Some(after)) => self.write_object(&mut lines, "MODIFIED", after),
                (Some(before), None) => {
                    let mut gone = Value::clone(before);
                    stamp(&mut gone, change.version);
                    self.write_object(&mut lines, "DELETED", &gone);
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
        self.is_over = true;
        let mut lines = Vec::new();
        write_line(&mut lines, "ERROR", &error.to_status());
        self.pending_lines = lines;
    }

    fn write_object(&self, lines: &mut Vec<u8>, kind: &'static str, object: &Value) {
        let shown = event::shown(self.options.resource, object);
        write_line(lines, kind, &Typed::of(self.options.resource, &shown));
    }

    fn write_bookmark(&self, lines: &mut Vec<u8>, ends_initial_events: bool) {
        let mut object = json!({"metadata": {"resourceVersion": self.cursor.to_string()}});
        if ends_initial_events {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        write_line(lines, "BOOKMARK", &Typed::of(self.options.resource, &object));
    }
}

fn write_line(lines: &mut Vec<u8>, kind: &'static str, object: &impl Serialize) {
    #[derive(Serialize)]
    struct Line<'a, T> {
        r#type: &'static str,
        object: &'a T,
    }
    // JSON values always serialise: their keys are strings.
    if serde_json::to_writer(&mut *lines, &Line { r#type: kind, object }).is_ok() {
        lines.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;
    use crate::api::kinds::table::{NODES, PODS};
    use crate::api::store::{KEPT_CHANGES, Key};
    use crate::clock::Clock;
    use crate::version::Version;

    #[tokio::test]
    async fn a_watcher_that_falls_behind_the_kept_changes_gets_410_and_ends() {
        let store = Arc::new(Store::new(Clock::new(), Version::default()));
        let write = |times: usize| {
            let mut state = store.lock();
            for _ in 0..times {
                state.insert(NODES.collection, Key::new("", "n1"), json!({}));
            }
        };
        let watch = || {
            let options = WatchOptions {
                resource: &PODS,
                filter: Filter::parse(&PODS, None, "", "").unwrap(),
                from: Some(1),
                send_initial_events: false,
                bookmarks: true,
                timeout: Some(Duration::from_millis(1)),
            };
            Box::pin(open(store.clone(), options, CancellationToken::new()))
        };
        write(1);
        let (mut slow, mut just_in_time) = (watch(), watch());
        write(KEPT_CHANGES);
        let line = just_in_time.next().await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&line).contains("BOOKMARK"));
        write(1);
        let line: Value = serde_json::from_slice(&slow.next().await.unwrap().unwrap()).unwrap();
        assert_eq!((&line["type"], &line["object"]["code"]), (&json!("ERROR"), &json!(410)));
        assert!(slow.next().await.is_none());
    }
}
