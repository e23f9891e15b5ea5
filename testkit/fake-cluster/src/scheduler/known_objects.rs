//! Turns the events of a kube watch, with its relists, into changes of single objects. Used by `watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt, runtime::watcher::Event};

/// One object before and after a change, of which at least one is there. An object that was replaced under the same name
/// is two changes.
pub(crate) struct Change<K> {
    pub(crate) old: Option<Arc<K>>,
    pub(crate) new: Option<Arc<K>>,
}

/// The last known state of every object of one kind.
pub(crate) struct KnownObjects<K> {
    known: BTreeMap<String, Arc<K>>,
    relist: Vec<K>,
    synced: bool,
}

impl<K: Resource> KnownObjects<K> {
    pub(crate) fn new() -> Self {
        Self { known: BTreeMap::new(), relist: Vec::new(), synced: false }
    }

    /// Whether the first list is complete.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Applies an event of the watch and gives the changes that it makes.
    pub(crate) fn apply(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.relist.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.relist.push(object);
                Vec::new()
            }
            Event::InitDone => self.replace_all(),
            Event::Apply(object) => self.put(object),
            Event::Delete(object) => self.remove(&key(&object)).into_iter().collect(),
        }
    }

    fn replace_all(&mut self) -> Vec<Change<K>> {
        self.synced = true;
        let mut listed = std::mem::take(&mut self.relist);
        // Oldest first, as a watch would have shown them; the server's own counter orders equal times.
        listed.sort_by_key(|object| {
            let version = object.resource_version().and_then(|version| version.parse::<u64>().ok());
            (object.creation_timestamp(), version, key(object))
        });
        let present: BTreeSet<String> = listed.iter().map(key).collect();
        let gone: Vec<String> =
            self.known.keys().filter(|known| !present.contains(*known)).cloned().collect();
        let mut changes: Vec<Change<K>> = gone.iter().filter_map(|key| self.remove(key)).collect();
        changes.extend(listed.into_iter().flat_map(|object| self.put(object)));
        changes
    }

    fn put(&mut self, object: K) -> Vec<Change<K>> {
        let object = Arc::new(object);
        match self.known.insert(key(object.as_ref()), object.clone()) {
            Some(old) if old.uid() != object.uid() => {
                vec![Change { old: Some(old), new: None }, Change { old: None, new: Some(object) }]
            }
            old => vec![Change { old, new: Some(object) }],
        }
    }

    fn remove(&mut self, key: &str) -> Option<Change<K>> {
        self.known.remove(key).map(|old| Change { old: Some(old), new: None })
    }
}

fn key<K: Resource>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
