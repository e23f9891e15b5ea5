//! Compares the ledger with kubelet's own books (podresources) and finds what every pod really got. podresources
//! leaves out ordinary init containers: absence there frees nothing. Called by `upkeep`, at rest.

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use runtime::reached;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger, Owner, Proof, hands_down, owns};

/// What podresources says of one container, its pod already found in the pod list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Real {
    /// The pod's UID; none if the pod list does not know the pod.
    pub uid: Option<String>,
    /// The container.
    pub container: String,
    /// The resource.
    pub resource: Resource,
    /// The cores of its ids.
    pub cores: CoreSet,
    /// Number of ids.
    pub count: u32,
}

impl Ledger {
    /// Takes over what kubelet says. Entries made at `before` or later are newer than `real` and stay as they are;
    /// `slots` must have been read after `real`; while the pod list could not be read (`fresh` is false), nothing is
    /// freed and nobody is assumed to be an owner.
    pub fn reconcile(&mut self, slots: &[Slot], real: &[Real], before: u64, fresh: bool) {
        for real in real {
            self.believe(slots, real, before);
        }
        for real in real {
            self.follow_to_init(slots, real, before);
        }
        self.follow_the_row(slots);
        if fresh {
            self.settle_unowned(slots, real, before);
        }
    }

    fn believe(&mut self, slots: &[Slot], real: &Real, before: u64) {
        let mine = |owner: &Owner| Some(&owner.uid) == real.uid.as_ref() && owner.container == real.container;
        let init = |entry: &Entry| slots.iter().any(|slot| hands_down(slot) && owns(entry, slot));
        let same = |entry: &Entry| {
            entry.sequence < before && entry.resource == real.resource && entry.cores == real.cores
        };
        // An init container's ids stay with its pod until that ends: what is another pod's now, it only seemed to get.
        let seemed = |entry: &Entry| {
            entry.is_assumed()
                && entry.owner.as_ref().is_some_and(|owner| Some(&owner.uid) != real.uid.as_ref())
        };
        let find =
            |fits: &dyn Fn(&Entry) -> bool| self.entries.iter().position(|entry| same(entry) && fits(entry));
        let found = find(&|entry| !init(entry) && entry.owner.as_ref().is_some_and(mine))
            .or_else(|| find(&|entry| !init(entry)))
            .or_else(|| find(&|entry| init(entry) && seemed(entry)));
        for (place, entry) in self.entries.iter_mut().enumerate() {
            let stale = entry.sequence < before && entry.resource == real.resource && Some(place) != found;
            if stale && entry.owner.as_ref().is_some_and(mine) {
                entry.owner = None;
            }
        }
        let owner = real.uid.clone().map(|uid| Owner {
            uid,
            container: real.container.clone(),
            proof: Proof::Kubelet,
        });
        match found.and_then(|place| self.entries.get_mut(place)) {
            Some(entry) => entry.owner = owner,
            None => {
                reached("plugin: entry adopted");
                self.push(real.resource, real.cores, real.count, false, owner);
            }
        }
    }

    /// Ids handed down show which pod's init container had them before: of two equal pods that kubelet admitted in
    /// the other order, the init entries change hands with the others.
    fn follow_to_init(&mut self, slots: &[Slot], real: &Real, before: u64) {
        let Some(init) = slots.iter().find(|slot| {
            Some(&slot.uid) == real.uid.as_ref() && slot.resource == real.resource && hands_down(slot)
        }) else {
            return;
        };
        let of_init = |entry: &Entry| {
            entry.sequence < before
                && entry.resource == init.resource
                && entry.count == init.count
                && entry.cores.intersects(real.cores)
                && entry
                    .owner
                    .as_ref()
                    .is_none_or(|_| slots.iter().any(|slot| hands_down(slot) && owns(entry, slot)))
        };
        let Some(place) = self.entries.iter().position(of_init) else { return };
        for (other, entry) in self.entries.iter_mut().enumerate() {
            if other == place {
                entry.owner = Some(Owner {
                    uid: init.uid.clone(),
                    container: init.container.clone(),
                    proof: Proof::Kubelet,
                });
            } else if owns(entry, init) {
                entry.owner = None;
            }
        }
    }

    /// An entry that only one pod can have goes to it; one that nobody can have is free.
    fn settle_unowned(&mut self, slots: &[Slot], real: &[Real], before: u64) {
        let seen = |entry: &Entry| {
            real.iter().any(|real| real.resource == entry.resource && real.cores == entry.cores)
        };
        let unowned: Vec<u64> = self
            .entries
            .iter()
            .filter(|entry| entry.owner.is_none() && entry.sequence < before && !seen(entry))
            .map(|entry| entry.sequence)
            .collect();
        for sequence in unowned {
            let possible = self.possible_owners(slots, sequence);
            let Some(first) = possible.first() else {
                reached("plugin: entry of nobody freed");
                self.entries.retain(|entry| entry.sequence != sequence);
                continue;
            };
            // One that still waits may have been bound after the entry was made: kubelet may yet ask for it.
            if first.admitted && possible.iter().all(|slot| slot.uid == first.uid) {
                reached("plugin: owner assumed");
                let owner =
                    Owner { uid: first.uid.clone(), container: first.container.clone(), proof: Proof::Fits };
                self.entries
                    .iter_mut()
                    .filter(|entry| entry.sequence == sequence)
                    .for_each(|entry| entry.owner = Some(owner.clone()));
            }
        }
    }

    fn possible_owners<'a>(&self, slots: &'a [Slot], sequence: u64) -> Vec<&'a Slot> {
        let entry = self.entries.iter().find(|entry| entry.sequence == sequence);
        slots.iter().filter(|slot| entry.is_some_and(|entry| self.could_own(slot, entry))).collect()
    }
}
