//! The past changes that watches read, as many as are kept. Owned by the store.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{BadStart, Key, Stored, stamp};
use crate::api::kinds::table::Collection;

/// How many past changes are kept at most. A watch that has not been told of an older one gets 410 Gone.
pub(crate) const KEPT_CHANGES: usize = 32_768;
/// How many bytes the objects may take, about, that nothing but the kept changes holds any more.
const KEPT_BYTES: usize = 64 << 20;

/// One write: `before` is `None` for a creation, `after` for a removal.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) collection: Collection,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Stored>>,
    pub(crate) after: Option<Arc<Stored>>,
    /// What [`Self::gone`] gives.
    gone: OnceLock<Option<Arc<Stored>>>,
}

impl Change {
    pub(super) fn new(
        version: u64,
        (collection, key): (Collection, Key),
        before: Option<Arc<Stored>>,
        after: Option<Arc<Stored>>,
    ) -> Self {
        Self { version, collection, key, before, after, gone: OnceLock::new() }
    }

    /// The object as it was, at the version at which it ceased to be that: what a watch tells of a deletion.
    pub(crate) fn gone(&self) -> Option<&Arc<Stored>> {
        let made = || {
            let mut object = Value::clone(self.before.as_ref()?);
            stamp(&mut object, self.version);
            Some(Stored::new(object))
        };
        self.gone.get_or_init(made).as_ref()
    }
}

/// The newest changes: one per version, without gaps.
#[derive(Debug, Default)]
pub(super) struct Changes {
    kept: VecDeque<Arc<Change>>,
    bytes: usize,
}

impl Changes {
    /// Adds the newest change, and drops old ones that are too many.
    pub(super) fn push(&mut self, change: Arc<Change>) {
        self.bytes += weight(&change);
        self.kept.push_back(change);
        while self.kept.len() > KEPT_CHANGES || (self.bytes > KEPT_BYTES && self.kept.len() > 1) {
            let dropped = self.kept.pop_front();
            self.bytes -= dropped.map_or(0, |dropped| weight(&dropped));
        }
    }

    /// The oldest version that is kept; none before the first change.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.kept.front().map(|change| change.version)
    }

    /// The changes that follow on version `after`, oldest first.
    pub(super) fn after(&self, after: u64) -> Result<impl Iterator<Item = &Arc<Change>>, BadStart> {
        let oldest = self.oldest().unwrap_or(after + 1);
        let Some(skipped) = (after + 1).checked_sub(oldest) else {
            return Err(BadStart::Compacted { oldest });
        };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(self.kept.len());
        Ok(self.kept.range(skipped..))
    }

    /// Turns the present objects of a collection into those at `version`.
    pub(super) fn undo(
        &self,
        version: u64,
        collection: Collection,
        objects: &mut BTreeMap<Key, Arc<Stored>>,
    ) {
        let later = self.kept.iter().rev().take_while(|change| change.version > version);
        for change in later.filter(|change| change.collection == collection) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), before.clone()),
                None => objects.remove(&change.key),
            };
        }
    }
}

/// What a change alone holds: the object that it replaced. The one after it is stored, or a later change replaced it.
fn weight(change: &Change) -> usize {
    size_of::<Change>() + change.before.as_ref().map_or(0, |before| before.weight())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_objects_leave_fewer_changes() {
        let mut changes = Changes::default();
        let large = Stored::new(json!({"text": "x".repeat(1 << 20)}));
        for version in 1..=200 {
            let place = (Collection::Nodes, Key::new("", "n1"));
            changes.push(Arc::new(Change::new(version, place, Some(large.clone()), Some(large.clone()))));
        }
        assert!(changes.bytes <= KEPT_BYTES);
        assert_eq!(changes.oldest(), Some(138), "63 of a little more than a mebibyte each are kept");
        assert_eq!(changes.after(190).unwrap().count(), 10);
        assert!(changes.after(100).is_err());
    }
}
