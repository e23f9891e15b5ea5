//! A [`Gap`] is open from the end of one watch until the next has told what happened since, and says when the API server was last heard.
//! Opened and closed by the watch, asked by whoever decides by what it has told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Whether a watch is between two requests. Clones share it; closed at first.
#[derive(Clone, Debug, Default)]
pub struct Gap(Arc<State>);

#[derive(Debug, Default)]
struct State {
    opened: Mutex<Option<Instant>>,
    /// When the API server last sent anything on the watch, or a page of its list.
    heard: Mutex<Option<Instant>>,
    /// Since when watches begin and say nothing.
    silent: Mutex<Option<Instant>>,
    /// Not a `tokio::sync::watch`, which wakes its waiters in a random order.
    closed: Notify,
}

impl Gap {
    /// What has happened since the last event is not known from now on.
    pub fn open(&self) {
        self.opened(|opened| {
            opened.get_or_insert_with(Instant::now);
        });
    }

    /// What had happened meanwhile has been told.
    pub fn close(&self) {
        if self.opened(Option::take).is_some() {
            self.0.closed.notify_waiters();
        }
    }

    /// Whether something may have happened that is not told yet.
    pub fn is_open(&self) -> bool {
        self.since().is_some()
    }

    /// Since when something may have happened that is not told yet; none where everything is.
    pub fn since(&self) -> Option<Instant> {
        self.opened(|opened| *opened)
    }

    /// The API server has sent an event or a bookmark, or has ended the watch when it was asked to. Said by the watch; by others only
    /// where none is.
    pub fn heard(&self) {
        self.listed();
        *locked(&self.0.silent) = None;
    }

    /// The API server has sent a page of a list, which does not say that its watches tell anything.
    pub(super) fn listed(&self) {
        *locked(&self.0.heard) = Some(Instant::now());
    }

    /// A watch was begun, and nothing was heard for longer than it lasts.
    pub(super) fn is_silent(&self) {
        locked(&self.0.silent).get_or_insert_with(Instant::now);
    }

    /// Since when it is known that watches begin and say nothing; none while they do say something. Lists may succeed meanwhile.
    pub fn silent_since(&self) -> Option<Instant> {
        *locked(&self.0.silent)
    }

    /// When the API server last sent anything, be it a page of a list or a bookmark, or ended a watch when it was asked to; none before the
    /// first page of the first list. That a watch begins does not count.
    pub fn heard_at(&self) -> Option<Instant> {
        *locked(&self.0.heard)
    }

    /// How long that is ago. A watch ends at least once a minute, so more than that is silence.
    pub fn silent_for(&self) -> Option<Duration> {
        self.heard_at().map(|heard| heard.elapsed())
    }

    /// Waits until it is closed.
    pub async fn closed(&self) {
        loop {
            // Made before the look: what is closed in between wakes it all the same.
            let closed = self.0.closed.notified();
            if !self.is_open() {
                return;
            }
            closed.await;
        }
    }

    fn opened<R>(&self, look: impl FnOnce(&mut Option<Instant>) -> R) -> R {
        look(&mut locked(&self.0.opened))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
