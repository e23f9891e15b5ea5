//! The objects, the one counter of resourceVersions, and the past changes that watches read. Every request takes the one
//! lock, never across an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;

use super::kinds::table::{Collection, Resource};
use super::object;
use crate::clock::{Clock, later, rfc3339};
use crate::version::Version;

/// How many past changes are kept. A watch that falls further behind gets 410 Gone.
pub(crate) const KEPT_CHANGES: usize = 32_768;

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

/// One write: `before` is `None` for a creation, `after` for a removal.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) collection: Collection,
    pub(crate) before: Option<Arc<Value>>,
    pub(crate) after: Option<Arc<Value>>,
}

/// What open watches wake for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The newest resourceVersion.
    pub(crate) version: u64,
    /// Whether requests are answered.
    pub(crate) available: bool,
    /// How often the server has become unavailable. A watch that was opened before the last time ends.
    pub(crate) outages: u64,
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
#[derive(Debug)]
pub(crate) struct Store {
    clock: Clock,
    version: Version,
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
}

impl Store {
    pub(crate) fn new(clock: Clock, version: Version) -> Self {
        let progress = watch::Sender::new(Progress { version: 0, available: true, outages: 0 });
        let state = State {
            objects: BTreeMap::new(),
            logs: BTreeMap::new(),
            version: 0,
            compacted: 0,
            uids: 0,
            generated_names: 0,
            changes: VecDeque::new(),
            progress: progress.clone(),
        };
        Self { clock, version, state: Mutex::new(state), progress }
    }

    /// The state, locked. A panic elsewhere leaves no half write, so a poisoned lock is usable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Wakes whenever an object changes or the server becomes available or unavailable.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) fn available(&self) -> bool {
        self.progress.borrow().available
    }

    pub(crate) fn set_available(&self, available: bool) {
        self.progress.send_modify(|progress| {
            progress.outages += u64::from(progress.available && !available);
            progress.available = available;
        });
    }
}

/// Everything behind the lock.
#[derive(Debug)]
pub(crate) struct State {
    objects: BTreeMap<Collection, BTreeMap<Key, Arc<Value>>>,
    logs: BTreeMap<Key, BTreeMap<String, String>>,
    version: u64,
    /// A watch may not start from a version below this.
    compacted: u64,
    uids: u64,
    generated_names: u64,
    /// One change per version, without gaps.
    changes: VecDeque<Arc<Change>>,
    progress: watch::Sender<Progress>,
}

impl State {
    /// The newest resourceVersion.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, collection: Collection, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(&collection)?.get(key)
    }

    /// The objects of a collection in the order of namespace and name.
    pub(crate) fn list(&self, collection: Collection) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.get(&collection).into_iter().flat_map(BTreeMap::values)
    }

    /// Creates or replaces an object under the next resourceVersion.
    pub(crate) fn insert(&mut self, collection: Collection, key: Key, mut object: Value) -> Arc<Value> {
        let version = self.version + 1;
        stamp(&mut object, version);
        let after = Arc::new(object);
        if collection == Collection::Pods && self.get(collection, &key).is_none() {
            // The logs of an earlier pod of this name are not this pod's.
            self.logs.remove(&key);
        }
        let before = self.objects.entry(collection).or_default().insert(key, after.clone());
        self.record(Change { version, collection, before, after: Some(after.clone()) });
        after
    }

    /// Removes an object, and a pod's logs with it. Gives the object as it was, if there was one.
    pub(crate) fn remove(&mut self, collection: Collection, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.get_mut(&collection)?.remove(key)?;
        if collection == Collection::Pods {
            self.logs.remove(key);
        }
        self.record(Change {
            version: self.version + 1,
            collection,
            before: Some(before.clone()),
            after: None,
        });
        Some(before)
    }

    /// Up to `limit` changes that follow on version `after`, oldest first.
    pub(crate) fn changes(&self, after: u64, limit: usize) -> Result<Vec<Arc<Change>>, BadStart> {
        let oldest = self.changes.front().map_or(self.version + 1, |change| change.version);
        let Some(skipped) = (after + 1).checked_sub(oldest) else {
            return Err(BadStart::Compacted { oldest });
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(self.changes.iter().skip(skipped).take(limit).cloned().collect())
    }

    /// Whether a new watch may start after `version`.
    pub(crate) fn check_start(&self, version: u64) -> Result<(), BadStart> {
        if version > self.version {
            return Err(BadStart::Future { current: self.version });
        }
        if version < self.compacted {
            return Err(BadStart::Compacted { oldest: self.compacted });
        }
        self.changes(version, 0).map(drop)
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

    fn record(&mut self, change: Change) {
        self.version = change.version;
        if self.changes.len() == KEPT_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(Arc::new(change));
        self.progress.send_modify(|progress| progress.version = self.version);
    }
}

/// Writes the resourceVersion into the object.
pub(crate) fn stamp(object: &mut Value, version: u64) {
    object::metadata_mut(object).insert("resourceVersion".into(), version.to_string().into());
}
