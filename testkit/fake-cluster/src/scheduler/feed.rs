//! Turns a kube watch, with its relists, into changes of single objects: what it was and what it is now.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt, runtime::watcher::Event};

/// One object's change; at least one side is there. An object replaced under the same name is two changes.
pub(super) struct Change<K> {
    pub(super) old: Option<Arc<K>>,
    pub(super) new: Option<Arc<K>>,
}

/// The last known state of every object of one kind.
pub(super) struct Feed<K> {
    known: HashMap<String, Arc<K>>,
    listed: Vec<K>,
    synced: bool,
}

impl<K: Resource> Feed<K> {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), listed: Vec::new(), synced: false }
    }

    /// Whether the first list is complete.
    pub(super) fn is_synced(&self) -> bool {
        self.synced
    }

    /// The changes an event of the watch stands for.
    pub(super) fn take(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.push(object);
                Vec::new()
            }
            Event::InitDone => self.replace_all(),
            Event::Apply(object) => self.apply(object),
            Event::Delete(object) => self.forget(&key(&object)).into_iter().collect(),
        }
    }

    fn replace_all(&mut self) -> Vec<Change<K>> {
        self.synced = true;
        let mut listed = std::mem::take(&mut self.listed);
        // Oldest first, as a queue would have met them; equal times are ordered by the server's own counter.
        listed.sort_by_key(|object| {
            let version = object.resource_version().and_then(|version| version.parse::<u64>().ok());
            (object.creation_timestamp(), version, key(object))
        });
        let present: HashSet<String> = listed.iter().map(key).collect();
        let mut gone: Vec<String> =
            self.known.keys().filter(|known| !present.contains(*known)).cloned().collect();
        gone.sort();
        let mut changes: Vec<Change<K>> = gone.iter().filter_map(|key| self.forget(key)).collect();
        changes.extend(listed.into_iter().flat_map(|object| self.apply(object)));
        changes
    }

    fn apply(&mut self, object: K) -> Vec<Change<K>> {
        let object = Arc::new(object);
        match self.known.insert(key(object.as_ref()), object.clone()) {
            Some(old) if old.uid() != object.uid() => {
                vec![Change { old: Some(old), new: None }, Change { old: None, new: Some(object) }]
            }
            old => vec![Change { old, new: Some(object) }],
        }
    }

    fn forget(&mut self, key: &str) -> Option<Change<K>> {
        self.known.remove(key).map(|old| Change { old: Some(old), new: None })
    }
}

fn key<K: Resource>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}
