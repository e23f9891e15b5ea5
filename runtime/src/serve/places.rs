//! The places of a server's connections, and which one gives up its own for another when all are taken. Used by
//! [`super::Server`].

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::calls::Calls;

/// As many connections as there may be at one time.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
    /// Notified when a place is free again, and when a connection becomes idle.
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Taken {
    /// The number of the next one.
    next: u64,
    by: BTreeMap<u64, (Calls, CancellationToken)>,
}

/// The place of one connection, which is free again when this is dropped.
pub(super) struct Place {
    /// The connection's calls.
    pub(super) calls: Calls,
    /// Cancelled when another connection is to have the place.
    pub(super) wanted: CancellationToken,
    number: u64,
    places: Arc<Places>,
}

impl Places {
    /// So many places, all of them free.
    pub(super) fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default(), changed: Arc::default() }
    }

    /// Waits for a place. Where all are taken the connection that has been idle longest gives up its own. Only one may wait at a time.
    pub(super) async fn take(self: &Arc<Self>) -> Place {
        loop {
            if let Some(place) = self.free() {
                return place;
            }
            let next = self.want_the_idlest();
            tokio::select! {
                biased;
                () = self.changed.notified() => {}
                () = until(next) => {}
            }
        }
    }

    fn free(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.taken();
        if taken.by.len() >= self.most {
            return None;
        }
        let number = taken.next;
        taken.next += 1;
        let (calls, wanted) = (Calls::none(Arc::clone(&self.changed)), CancellationToken::new());
        taken.by.insert(number, (calls.clone(), wanted.clone()));
        Some(Place { calls, wanted, number, places: Arc::clone(self) })
    }

    /// Has the connection go that has been idle longest. Where none is yet, when the first one will be if nothing happens.
    fn want_the_idlest(&self) -> Option<Instant> {
        let taken = self.taken();
        // One that is wanted already has not gone yet, and is enough.
        if taken.by.values().any(|(_, wanted)| wanted.is_cancelled()) {
            return None;
        }
        let idle = taken.by.values().filter_map(|(calls, wanted)| Some((calls.idle_from()?, wanted)));
        let (from, wanted) = idle.min_by_key(|(from, _)| *from)?;
        if from > Instant::now() {
            return Some(from);
        }
        tracing::debug!(idle = ?from.elapsed(), "an idle connection is closed for a new one");
        wanted.cancel();
        None
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until then; without end where that is never.
async fn until(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => pending().await,
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().by.remove(&self.number);
        self.places.changed.notify_one();
    }
}
