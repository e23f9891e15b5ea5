//! When events go by themselves. Owned by the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::Key;

/// How long an event stays after its last write: kube-apiserver's `--event-ttl` by default.
pub(super) const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// Every event's end.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    by_time: BTreeSet<(Timestamp, Key)>,
    by_key: BTreeMap<Key, Timestamp>,
}

impl Expiry {
    /// The event ends at `at`, and no longer when it would have ended before.
    pub(super) fn set(&mut self, key: &Key, at: Timestamp) {
        self.forget(key);
        self.by_time.insert((at, key.clone()));
        self.by_key.insert(key.clone(), at);
    }

    pub(super) fn forget(&mut self, key: &Key) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    /// When the next event ends.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The next event that has ended by `now`.
    pub(super) fn due(&self, now: Timestamp) -> Option<Key> {
        self.by_time.first().filter(|(at, _)| *at <= now).map(|(_, key)| key.clone())
    }
}
