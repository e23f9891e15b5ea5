//! The objects, the one counter of resourceVersions, and the ring of past changes that watches read from.
//! Every request takes the one lock, never across an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use super::object;
use super::resource::{Collection, Resource};

/// How many past changes are kept. A watch that falls further behind gets 410.
pub(super) const KEPT_CHANGES: usize = 32_768;

/// An object's place inside its collection; `namespace` is "" for cluster-wide kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The object's key in etcd, which some error texts show.
    pub(super) fn path(&self, resource: &Resource) -> String {
        let Key { namespace, name } = self;
        match namespace.as_str() {
            "" => format!("/registry/{}/{name}", resource.plural),
            namespace => format!("/registry/{}/{namespace}/{name}", resource.plural),
        }
    }
}

/// One write: `before` is `None` for a creation, `after` for a removal.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) collection: Collection,
    pub(super) before: Option<Arc<Value>>,
    pub(super) after: Option<Arc<Value>>,
}

/// What open watches are woken for.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// The newest resourceVersion.
    pub(super) version: u64,
    /// Whether requests are answered.
    pub(super) available: bool,
    /// Counts how often the server became unavailable: watches from before end.
    pub(super) outages: u64,
}

/// Why changes after a version cannot be had.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// Changes directly after the wanted version are forgotten; the oldest that is still known follows.
    Forgotten { oldest: u64 },
    /// The server has not reached that version.
    Future { current: u64 },
}

/// The shared, locked state of one server.
#[derive(Debug)]
pub(super) struct Store {
    state: Mutex<State>,
    news: watch::Sender<News>,
}

impl Store {
    pub(super) fn new() -> Self {
        let news = watch::Sender::new(News { version: 0, available: true, outages: 0 });
        let state = State {
            objects: BTreeMap::new(),
            logs: BTreeMap::new(),
            version: 0,
            compacted: 0,
            uids: 0,
            generated_names: 0,
            changes: VecDeque::new(),
            news: news.clone(),
        };
        Self { state: Mutex::new(state), news }
    }

    /// The state, locked. A panic elsewhere leaves no half write, so a poisoned lock is as good as any.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A receiver of everything that open watches must wake for.
    pub(super) fn news(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    pub(super) fn available(&self) -> bool {
        self.news.borrow().available
    }

    pub(super) fn set_available(&self, available: bool) {
        self.news.send_modify(|news| {
            news.outages += u64::from(news.available && !available);
            news.available = available;
        });
    }
}

/// Everything behind the lock.
#[derive(Debug)]
pub(super) struct State {
    objects: BTreeMap<Collection, BTreeMap<Key, Arc<Value>>>,
    logs: BTreeMap<Key, BTreeMap<String, String>>,
    version: u64,
    /// Watches may not start from a version below this.
    compacted: u64,
    uids: u64,
    generated_names: u64,
    /// One change per version, without gaps.
    changes: VecDeque<Arc<Change>>,
    news: watch::Sender<News>,
}

impl State {
    /// The newest resourceVersion.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, collection: Collection, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(&collection)?.get(key)
    }

    /// The objects of a collection in the order of namespace and name.
    pub(super) fn list(&self, collection: Collection) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.get(&collection).into_iter().flat_map(BTreeMap::values)
    }

    /// Creates or replaces an object under the next resourceVersion.
    pub(super) fn insert(&mut self, collection: Collection, key: Key, mut object: Value) -> Arc<Value> {
        let version = self.version + 1;
        stamp(&mut object, version);
        let after = Arc::new(object);
        if collection == Collection::Pods && self.get(collection, &key).is_none() {
            // What an earlier pod of this name wrote is not this pod's.
            self.logs.remove(&key);
        }
        let before = self.objects.entry(collection).or_default().insert(key, after.clone());
        self.record(Change { version, collection, before, after: Some(after.clone()) });
        after
    }

    /// Removes an object, and a pod's logs with it. Gives the object as it was, if there was one.
    pub(super) fn remove(&mut self, collection: Collection, key: &Key) -> Option<Arc<Value>> {
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
    pub(super) fn changes(&self, after: u64, limit: usize) -> Result<Vec<Arc<Change>>, Unreadable> {
        let oldest = self.changes.front().map_or(self.version + 1, |change| change.version);
        let Some(skipped) = (after + 1).checked_sub(oldest) else {
            return Err(Unreadable::Forgotten { oldest });
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Ok(self.changes.iter().skip(skipped).take(limit).cloned().collect())
    }

    /// Whether a new watch may start after `version`.
    pub(super) fn check_start(&self, version: u64) -> Result<(), Unreadable> {
        if version > self.version {
            return Err(Unreadable::Future { current: self.version });
        }
        if version < self.compacted {
            return Err(Unreadable::Forgotten { oldest: self.compacted });
        }
        self.changes(version, 0).map(drop)
    }

    /// Refuses every version before the newest to watches that start from now on. Open watches go on.
    pub(super) fn compact(&mut self) {
        self.compacted = self.version;
    }

    /// The same uids in the same order on every server, so that runs can be compared.
    pub(super) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012x}", self.uids)
    }

    /// A name from `metadata.generateName`: five characters of Kubernetes' own alphabet, counted up.
    pub(super) fn next_name(&mut self, prefix: &str) -> String {
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

    pub(super) fn log(&self, pod: &Key, container: &str) -> Option<&str> {
        self.logs.get(pod)?.get(container).map(String::as_str)
    }

    pub(super) fn set_log(&mut self, pod: Key, container: &str, text: &str) {
        self.logs.entry(pod).or_default().insert(container.into(), text.into());
    }

    fn record(&mut self, change: Change) {
        self.version = change.version;
        if self.changes.len() == KEPT_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(Arc::new(change));
        self.news.send_modify(|news| news.version = self.version);
    }
}

/// Writes the resourceVersion into the object.
pub(super) fn stamp(object: &mut Value, version: u64) {
    object::metadata_mut(object).insert("resourceVersion".into(), version.to_string().into());
}
