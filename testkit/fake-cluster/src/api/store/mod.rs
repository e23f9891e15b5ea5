//! The objects, the one counter of resourceVersions, and the past changes that watches read. Every request takes the one
//! lock, never across an await.
//!
//! `stored` is one version of an object, `changes` keeps what was written, `subscribers` wakes the watches that a write
//! concerns, `observers` are told inside it, and `expiry` is when events end.

mod changes;
mod expiry;
mod observers;
mod stored;
mod subscribers;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use runtime::reached;
use serde_json::Value;
use tokio::sync::Notify;

use super::kinds::table::{Collection, Resource};
use super::object;
use crate::clock::{Clock, later, rfc3339};
use crate::version::Version;

pub(crate) use self::changes::Change;
#[cfg(test)]
pub(crate) use self::changes::KEPT_CHANGES;
pub use self::observers::Observed;
pub(crate) use self::stored::Stored;
pub(crate) use self::subscribers::{News, Part, Topic};

use self::changes::Changes;
use self::expiry::{EVENT_TTL, Expiry};
use self::observers::{Observer, Observers};
use self::subscribers::Subscribers;

/// An object's place inside its collection; `namespace` is "" for cluster-wide kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The object's key in etcd, which some error texts show.
    pub(crate) fn path(&self, resource: &Resource) -> String {
        let Key { namespace, name } = self;
        match namespace.as_str() {
            "" => format!("/registry/{}/{name}", resource.plural),
            namespace => format!("/registry/{}/{namespace}/{name}", resource.plural),
        }
    }
}

/// Why the changes after a resourceVersion cannot be read.
#[derive(Debug)]
pub(crate) enum BadStart {
    /// The changes directly after it are no longer kept; `oldest` is the first that is.
    Compacted { oldest: u64 },
    /// The server has not reached it.
    Future { current: u64 },
}

/// What the requests of one server share.
pub(crate) struct Store {
    clock: Clock,
    version: Version,
    state: Mutex<State>,
}

impl Store {
    pub(crate) fn new(clock: Clock, version: Version) -> Self {
        let state = State {
            clock: clock.clone(),
            available: true,
            objects: BTreeMap::new(),
            logs: BTreeMap::new(),
            version: 0,
            compacted: 0,
            uids: 0,
            generated_names: 0,
            changes: Changes::default(),
            subscribers: Subscribers::default(),
            observers: Observers::default(),
            expiry: Expiry::default(),
        };
        Self { clock, version, state: Mutex::new(state) }
    }

    /// The state, locked, in which every event has ended whose time is over. A panic elsewhere leaves no half write, so a
    /// poisoned lock is usable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.end_events();
        state
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The Kubernetes version that the server is; it never changes.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The time `span` from now, as objects have it.
    pub(crate) fn timestamp(&self, span: Duration) -> String {
        rfc3339(later(self.clock.now(), span))
    }

    /// Whether requests are answered.
    pub(crate) fn available(&self) -> bool {
        self.lock().available
    }

    /// Ends open watches when it becomes unavailable.
    pub(crate) fn set_available(&self, available: bool) {
        let mut state = self.lock();
        if state.available && !available {
            state.subscribers.end();
        }
        state.available = available;
    }

    /// Calls `observer` inside every write from now on.
    pub(crate) fn observe(&self, observer: Observer) {
        self.lock().observers.add(observer);
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("version", &self.version).finish_non_exhaustive()
    }
}

/// A watch's place among those that are told of changes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Subscription {
    store: Arc<Store>,
    number: u64,
    wake: Arc<Notify>,
}

impl Subscription {
    /// Tells of every change to `topic` that follows on version `after`. `state` is the store's.
    pub(crate) fn new(
        store: &Arc<Store>,
        state: &mut State,
        topic: Topic,
        after: u64,
    ) -> Result<Self, BadStart> {
        state.check_start(after)?;
        let untold: VecDeque<_> =
            state.changes.after(after)?.filter(|change| topic.is_concerned(change)).cloned().collect();
        let (number, wake) = state.subscribers.add(topic, untold);
        Ok(Self { store: store.clone(), number, wake })
    }

    /// Up to `limit` changes that were not told yet.
    pub(crate) fn take(&self, limit: usize) -> News {
        let mut state = self.store.lock();
        let (version, oldest) = (state.version, state.oldest());
        state.subscribers.take(self.number, limit, version, oldest)
    }

    /// Returns when there may be news.
    pub(crate) async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.store.lock().subscribers.remove(self.number);
    }
}

/// Everything behind the lock.
pub(crate) struct State {
    clock: Clock,
    available: bool,
    objects: BTreeMap<Collection, BTreeMap<Key, Arc<Stored>>>,
    logs: BTreeMap<Key, BTreeMap<String, String>>,
    version: u64,
    /// A watch may not start from a version below this.
    compacted: u64,
    uids: u64,
    generated_names: u64,
    changes: Changes,
    subscribers: Subscribers,
    observers: Observers,
    expiry: Expiry,
}

impl State {
    /// The newest resourceVersion.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, collection: Collection, key: &Key) -> Option<&Arc<Stored>> {
        self.objects.get(&collection)?.get(key)
    }

    /// The version `lag` versions ago, or the oldest after that at which what is kept still shows the objects and from
    /// which a watch may start.
    pub(crate) fn version_before(&self, lag: u64) -> u64 {
        self.version.saturating_sub(lag).max(self.compacted).max(self.oldest() - 1)
    }

    /// The objects of a collection that are asked for, in the order of namespace and name, as they were at the newest version
    /// or at one that [`Self::version_before`] gave.
    pub(crate) fn list_at(
        &self,
        version: u64,
        collection: Collection,
        asked_for: impl Fn(&Value) -> bool,
    ) -> Vec<Arc<Stored>> {
        let Some(newest) = self.objects.get(&collection) else { return Vec::new() };
        if version == self.version {
            return newest.values().filter(|object| asked_for(object)).cloned().collect();
        }
        let mut objects = newest.clone();
        self.changes.undo(version, collection, &mut objects);
        objects.into_values().filter(|object| asked_for(object)).collect()
    }

    /// When the next event ends by itself.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.expiry.next()
    }

    /// Creates or replaces an object under the next resourceVersion.
    pub(crate) fn insert(&mut self, collection: Collection, key: Key, mut object: Value) -> Arc<Stored> {
        let version = self.version + 1;
        stamp(&mut object, version);
        let after = Stored::new(object);
        if collection == Collection::Pods && self.get(collection, &key).is_none() {
            // The logs of an earlier pod of this name are not this pod's.
            self.logs.remove(&key);
        }
        if collection == Collection::Events {
            self.expiry.set(&key, later(self.clock.now(), EVENT_TTL));
        }
        let before = self.objects.entry(collection).or_default().insert(key.clone(), after.clone());
        self.record(Change::new(version, (collection, key), before, Some(after.clone())));
        after
    }

    /// Removes an object, and a pod's logs with it. Gives the object as it was, if there was one.
    pub(crate) fn remove(&mut self, collection: Collection, key: &Key) -> Option<Arc<Stored>> {
        let before = self.objects.get_mut(&collection)?.remove(key)?;
        match collection {
            Collection::Pods => drop(self.logs.remove(key)),
            Collection::Events => self.expiry.forget(key),
            Collection::Nodes | Collection::Namespaces | Collection::Leases => {}
        }
        self.record(Change::new(self.version + 1, (collection, key.clone()), Some(before.clone()), None));
        Some(before)
    }

    /// Whether a new watch may start after `version`.
    fn check_start(&self, version: u64) -> Result<(), BadStart> {
        if version > self.version {
            return Err(BadStart::Future { current: self.version });
        }
        if version < self.compacted {
            return Err(BadStart::Compacted { oldest: self.compacted });
        }
        Ok(())
    }

    /// Refuses new watches from any version before the newest. Open watches continue.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
    }

    /// UIDs are the same in the same order on every server, so that two runs can be compared.
    pub(crate) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// A name from `metadata.generateName`: five characters of Kubernetes' own alphabet, counted up.
    pub(crate) fn next_name(&mut self, prefix: &str) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        self.generated_names += 1;
        let mut rest = self.generated_names as usize;
        let mut suffix = ['b'; 5];
        for place in suffix.iter_mut().rev() {
            *place = char::from(ALPHABET[rest % ALPHABET.len()]);
            rest /= ALPHABET.len();
        }
        format!("{prefix}{}", suffix.iter().collect::<String>())
    }

    pub(crate) fn log(&self, pod: &Key, container: &str) -> Option<&str> {
        self.logs.get(pod)?.get(container).map(String::as_str)
    }

    pub(crate) fn set_log(&mut self, pod: Key, container: &str, text: &str) {
        self.logs.entry(pod).or_default().insert(container.into(), text.into());
    }

    /// The oldest version whose change is kept.
    fn oldest(&self) -> u64 {
        self.changes.oldest().unwrap_or(self.version + 1)
    }

    /// Removes the events whose time is over.
    fn end_events(&mut self) {
        if self.expiry.next().is_none() {
            return;
        }
        let now = self.clock.now();
        while let Some(event) = self.expiry.due(now) {
            reached("cluster: an event ended");
            self.remove(Collection::Events, &event);
        }
    }

    fn record(&mut self, change: Change) {
        self.version = change.version;
        let change = Arc::new(change);
        self.changes.push(change.clone());
        self.observers.tell(&change);
        self.subscribers.tell(&change, self.oldest());
    }
}

/// Writes the resourceVersion into the object.
fn stamp(object: &mut Value, version: u64) {
    object::metadata_mut(object).insert("resourceVersion".into(), version.to_string().into());
}
