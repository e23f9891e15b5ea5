//! Pods that run: kubelet admits equal pods in any order, so what one of them has may have seemed to be given to
//! another. Called by `engine` before every look at the ledger.

use neuron_core::ids::CoreSet;
use runtime::reached;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger, Owner, Proof, hands_down, owns};

impl Ledger {
    /// A pod that runs was given what it asks for. If nothing here is known to be its own, it has what an equal pod
    /// that still waits only seemed to get, else what nobody seemed to get: its record no longer says what it has.
    pub fn follow_admission(&mut self, slots: &[Slot]) {
        for running in slots.iter().filter(|slot| slot.admitted && !hands_down(slot)) {
            if self.entry_of(running).is_none()
                && let Some(place) = self.anothers(slots, running, |_| true)
            {
                self.give(place, running);
            }
        }
        for init in slots.iter().filter(|slot| slot.admitted && hands_down(slot)) {
            self.follow_hand_down(slots, init);
        }
    }

    /// What an init container of a running pod had is what it handed down, if it handed anything down.
    fn follow_hand_down(&mut self, slots: &[Slot], init: &Slot) {
        let heirs = slots.iter().filter(|slot| slot.uid == init.uid && slot.resource == init.resource);
        let heirs = heirs.filter(|slot| !hands_down(slot)).filter_map(|slot| self.entry_of(slot));
        let handed = heirs.fold(CoreSet::EMPTY, |all, entry| all.union(entry.cores));
        let fits = |entry: &Entry| handed.is_empty() || entry.cores.intersects(handed);
        if self.entry_of(init).is_some_and(|own| fits(own) || !own.is_assumed()) {
            return;
        }
        if let Some(place) = self.anothers(slots, init, fits) {
            self.give(place, init);
        }
    }

    /// An entry like the one that `running` must have, and that is not known to be another's: what an equal pod that
    /// waits only seemed to get, else the newest that nobody seemed to get.
    fn anothers(&self, slots: &[Slot], running: &Slot, fits: impl Fn(&Entry) -> bool) -> Option<usize> {
        let waits = |entry: &Entry| {
            let owner = slots.iter().find(|slot| owns(entry, slot));
            entry.is_assumed()
                && owner.is_some_and(|slot| !slot.admitted && hands_down(slot) == hands_down(running))
        };
        let equal =
            |entry: &Entry| entry.resource == running.resource && entry.count == running.count && fits(entry);
        self.entries.iter().position(|entry| equal(entry) && waits(entry)).or_else(|| {
            let unowned = |(_, entry): &(usize, &Entry)| equal(entry) && entry.owner.is_none();
            let newest = |(_, entry): &(usize, &Entry)| (entry.epoch, entry.sequence);
            self.entries.iter().enumerate().filter(unowned).max_by_key(newest).map(|(place, _)| place)
        })
    }

    /// The entry is `slot`'s; whoever seemed to have it has what seemed to be `slot`'s, if there is such.
    pub(crate) fn give(&mut self, place: usize, slot: &Slot) {
        let own = self.entries.iter().position(|entry| owns(entry, slot));
        let owner = Owner { uid: slot.uid.clone(), container: slot.container.clone(), proof: Proof::Fits };
        let Some(entry) = self.entries.get_mut(place) else { return };
        reached("plugin: entry changed hands");
        let before = entry.owner.replace(owner);
        if let Some(own) = own.and_then(|own| self.entries.get_mut(own)) {
            own.owner = before;
        }
    }
}
