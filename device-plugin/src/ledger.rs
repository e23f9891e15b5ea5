//! Who holds what on this node, as the plugin knows it: what its Allocate gave out, whom that went to, and what the
//! records of bound pods claim. Pure; `engine` feeds it. Judging an Allocate is in `judge`, comparing with kubelet's
//! own books in `reconcile`.

pub mod admitted;
pub mod ended;
pub mod gate;
mod in_a_row;
pub mod judge;
pub mod reconcile;
pub mod slot;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use neuron_core::request::Role;
use runtime::reached;

use crate::ledger::ended::Ended;
use crate::ledger::slot::Slot;

/// One answered Allocate, or what podresources says of one from before this plugin started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The resource it was asked under.
    pub resource: Resource,
    /// The cores it takes.
    pub cores: CoreSet,
    /// Number of ids.
    pub count: u32,
    /// Which life of kubelet asked; a later life knows nothing of what it had not written down.
    pub epoch: u64,
    /// Its place in the history.
    pub sequence: u64,
    /// Whether an Allocate made it, so that its place says when kubelet asked; else podresources did.
    pub asked: bool,
    /// Who got it; kubelet does not say, so this may not be known yet.
    pub owner: Option<Owner>,
}

impl Entry {
    /// Whether it has an owner of whom nothing is known but that it fits.
    pub(crate) fn is_assumed(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.proof == Proof::Fits)
    }

    /// Whether kubelet's books name its owner.
    pub(crate) fn is_proven(&self) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.proof == Proof::Kubelet)
    }
}

/// Who got an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The pod's UID.
    pub uid: String,
    /// The container.
    pub container: String,
    /// How this is known.
    pub proof: Proof,
}

/// How an owner is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It fits what the pod asks for; kubelet may have swapped it with an equal pod's.
    Fits,
    /// podresources says so.
    Kubelet,
}

/// The history, and what it says together with the slots of live pods.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    pub(crate) entries: Vec<Entry>,
    pub(crate) ended: Vec<Ended>,
    pub(crate) epoch: u64,
    sequence: u64,
}

impl Ledger {
    /// The entries, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where the history stands: entries made later have this sequence or a larger one.
    pub fn now(&self) -> u64 {
        self.sequence
    }

    /// kubelet has restarted.
    pub fn kubelet_restarted(&mut self) {
        self.epoch += 1;
    }

    /// The recorded set to offer for a request: of the earliest bound pod that asks for it and was not given it yet, else
    /// of one that was given an equal pod's. So the records together stay right about what is taken, until each is
    /// corrected. kubelet's `available` says what nobody holds under this resource; it includes `must`.
    pub fn offer(
        &self,
        slots: &[Slot],
        resource: Resource,
        count: u32,
        available: CoreSet,
        must: CoreSet,
    ) -> Option<CoreSet> {
        let alike = || slots.iter().filter(|slot| slot.resource == resource && slot.count == count);
        let suits = |set: &CoreSet| !set.is_empty() && set.is_subset(available) && must.is_subset(*set);
        let own = alike().filter(|slot| !slot.admitted).filter(|slot| {
            // A pod that kubelet gave something else keeps that; one whose set is available again lost it.
            self.entry_of(slot).is_none_or(|entry| entry.cores.is_subset(available))
        });
        let given = self.entries.iter().fold(CoreSet::EMPTY, |all, entry| all.union(entry.cores));
        let left = alike().filter_map(|slot| slot.recorded).filter(|set| !set.intersects(given));
        own.filter_map(|slot| slot.recorded).chain(left).find(suits)
    }

    /// Every core that somebody holds or is promised.
    pub fn held(&self, slots: &[Slot]) -> CoreSet {
        let given = self.entries.iter().map(|entry| entry.cores);
        let promised = slots.iter().filter(|slot| self.entry_of(slot).is_none());
        given.chain(promised.filter_map(|slot| slot.recorded)).fold(CoreSet::EMPTY, CoreSet::union)
    }

    /// Writes down an Allocate that is about to be answered.
    pub fn allocate(&mut self, resource: Resource, cores: CoreSet, count: u32, owner: Option<&Slot>) {
        if let Some(slot) = owner {
            self.had_by_ended(slot);
            self.entries.retain(|entry| !owns(entry, slot));
        }
        // What kubelet gives out again under the same name after a restart was never really given, and what it gives
        // out again as a whole is given anew.
        let epoch = self.epoch;
        self.entries.retain(|entry| {
            entry.owner.is_some()
                || entry.resource != resource
                || (entry.epoch == epoch && !entry.cores.is_subset(cores))
                || !entry.cores.intersects(cores)
        });
        let owner = owner.map(|slot| Owner {
            uid: slot.uid.clone(),
            container: slot.container.clone(),
            proof: Proof::Fits,
        });
        self.push(resource, cores, count, true, owner);
    }

    /// Writes down an entry that an Allocate made (`asked`) or podresources.
    pub(crate) fn push(
        &mut self,
        resource: Resource,
        cores: CoreSet,
        count: u32,
        asked: bool,
        owner: Option<Owner>,
    ) {
        let sequence = self.sequence;
        self.sequence += 1;
        self.entries.push(Entry { resource, cores, count, epoch: self.epoch, sequence, asked, owner });
    }

    /// Frees what pods held that have ended or are gone: their slots are no longer there. An entry whose owner was
    /// only assumed stays while an equal pod may be the real one.
    pub fn release(&mut self, slots: &[Slot]) {
        let unproven: Vec<(Resource, u32)> = slots
            .iter()
            .filter(|slot| !self.entry_of(slot).is_some_and(Entry::is_proven))
            .map(|slot| (slot.resource, slot.count))
            .collect();
        self.entries.retain_mut(|entry| {
            let Some(owner) = &entry.owner else { return true };
            if slots.iter().any(|slot| slot.uid == owner.uid) {
                return true;
            }
            let keep = entry.is_assumed() && unproven.contains(&(entry.resource, entry.count));
            entry.owner = None;
            if keep {
                reached("plugin: entry kept for an equal pod");
            } else {
                reached("plugin: entry released");
            }
            keep
        });
    }

    /// Whether the slot may have got an entry whose owner is not known: it asks for as much, and nothing else is known
    /// to be its own.
    pub(crate) fn could_own(&self, slot: &Slot, entry: &Entry) -> bool {
        slot.resource == entry.resource && slot.count == entry.count && self.entry_of(slot).is_none()
    }

    /// What a slot was given, as far as known.
    pub fn entry_of(&self, slot: &Slot) -> Option<&Entry> {
        self.entries.iter().find(|entry| owns(entry, slot))
    }
}

/// Whether the entry went to the slot.
pub(crate) fn owns(entry: &Entry, slot: &Slot) -> bool {
    entry.resource == slot.resource
        && entry.owner.as_ref().is_some_and(|o| o.uid == slot.uid && o.container == slot.container)
}

/// Whether a slot's ids are handed down when its container has ended.
pub(crate) fn hands_down(slot: &Slot) -> bool {
    slot.role == Role::Init
}
