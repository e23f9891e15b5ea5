//! Pods that ended before it was known what they had. Each had what an equal pod that still waits only seemed to get,
//! so kubelet may give that out again. Called by `engine` for every pod that ends, asked by `judge`.

use neuron_core::names::Resource;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger, Owner};

/// A container that ended without an entry of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    resource: Resource,
    count: u32,
    /// Only what was given out before this can have been its.
    before: u64,
}

impl Ended {
    fn may_have_had(&self, entry: &Entry) -> bool {
        entry.resource == self.resource
            && entry.count == self.count
            && entry.sequence < self.before
            && entry.is_assumed()
    }
}

impl Ledger {
    /// Notes the pods that have ended since the last call; to be called before [`Ledger::release`], with their slots.
    pub fn note_ended(&mut self, slots: &[Slot]) {
        for slot in slots.iter().filter(|slot| self.entry_of(slot).is_none()).collect::<Vec<_>>() {
            let (resource, count, before) = (slot.resource, slot.count, self.now());
            self.ended.push(Ended { resource, count, before });
        }
        let entries = &self.entries;
        self.ended.retain(|ended| entries.iter().any(|entry| ended.may_have_had(entry)));
    }

    /// Whether an ended pod may have had the entry, whose owner is only assumed and still waits to be admitted.
    pub(crate) fn may_have_ended(&self, slots: &[Slot], entry: &Entry) -> bool {
        let waits = |owner: &Owner| slots.iter().any(|slot| slot.uid == owner.uid && !slot.admitted);
        entry.owner.as_ref().is_some_and(waits) && self.ended.iter().any(|ended| ended.may_have_had(entry))
    }

    /// kubelet gives `slot` something now: what it seemed to have was an ended pod's, which can explain no other entry.
    pub(crate) fn had_by_ended(&mut self, slot: &Slot) {
        let Some(entry) = self.entry_of(slot).cloned() else { return };
        if let Some(place) = self.ended.iter().position(|ended| ended.may_have_had(&entry)) {
            self.ended.remove(place);
        }
    }
}
