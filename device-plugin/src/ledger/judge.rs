//! Whether an Allocate may be answered: which pod it can be for, and who else holds its ids. No request carries a
//! pod's identity, so every pod that could be meant is tried. Asked by `engine`.

use std::fmt;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger, hands_down};

/// What is to be done with an Allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement<'a> {
    /// Answer it; the slot it is for, if only one pod can be meant.
    Allowed(Option<&'a Slot>),
    /// Refuse it.
    Held {
        /// Who holds the ids.
        holders: Vec<Holder>,
        /// The pods that the request can be for.
        asking: Vec<&'a Slot>,
    },
}

/// A pod that holds ids of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// `namespace/name`; none for an earlier Allocate whose pod is not known yet.
    pub pod: Option<String>,
    /// The cores in question.
    pub cores: CoreSet,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pod {
            Some(pod) => write!(f, "pod {pod}"),
            None => f.write_str("a container whose pod is not known yet"),
        }
    }
}

impl Ledger {
    /// Judges a request for `count` ids that take `cores`, by what `slots` say of the live pods.
    pub fn judge<'a>(
        &self,
        slots: &'a [Slot],
        resource: Resource,
        cores: CoreSet,
        count: u32,
    ) -> Judgement<'a> {
        let mut asking: Vec<&Slot> = slots
            .iter()
            .filter(|slot| slot.resource == resource && slot.count == count && !slot.admitted)
            .filter(|slot| {
                let again = |entry: &Entry| entry.epoch < self.epoch || self.may_have_ended(slots, entry);
                self.entry_of(slot).is_none_or(again)
            })
            .collect();
        // A stable sort: the pod whose record says exactly this comes first, then the earliest bound.
        asking.sort_by_key(|slot| slot.recorded != Some(cores));
        let fitting: Vec<&Slot> = asking
            .iter()
            .copied()
            .filter(|slot| self.holders(slots, resource, cores, Some(slot)).is_empty())
            .collect();
        match fitting.first() {
            Some(first) => {
                let sure = first.recorded == Some(cores) || fitting.iter().all(|slot| slot.uid == first.uid);
                Judgement::Allowed(sure.then_some(*first))
            }
            None => match self.holders(slots, resource, cores, asking.first().copied()) {
                holders if holders.is_empty() => Judgement::Allowed(None),
                holders => Judgement::Held { holders, asking },
            },
        }
    }

    /// Who holds any of `cores`, if the request is for `asking`.
    fn holders(
        &self,
        slots: &[Slot],
        resource: Resource,
        cores: CoreSet,
        asking: Option<&Slot>,
    ) -> Vec<Holder> {
        let mut holders: Vec<Holder> = Vec::new();
        let mut add = |pod: Option<&str>, held: CoreSet| {
            let held = held.intersection(cores);
            match holders.iter_mut().find(|holder| holder.pod.as_deref() == pod) {
                _ if held.is_empty() => {}
                Some(holder) => holder.cores = holder.cores.union(held),
                None => holders.push(Holder { pod: pod.map(str::to_owned), cores: held }),
            }
        };
        for entry in &self.entries {
            if !self.taken_over(slots, resource, entry, asking) {
                let owner = entry.owner.as_ref();
                let pod = owner.and_then(|owner| slots.iter().find(|slot| slot.uid == owner.uid));
                add(pod.map(|slot| slot.pod.as_str()), entry.cores);
            }
        }
        for slot in slots.iter().filter(|slot| self.entry_of(slot).is_none()) {
            if asking.is_none_or(|asking| asking.uid != slot.uid) {
                add(Some(&slot.pod), slot.recorded.unwrap_or_default());
            }
        }
        holders
    }

    /// Whether `asking` may have what `entry` gave out: its own init container's ids, what was given before a
    /// restart of kubelet and to nobody since, or what an equal pod had that has ended.
    fn taken_over(&self, slots: &[Slot], resource: Resource, entry: &Entry, asking: Option<&Slot>) -> bool {
        if entry.resource != resource {
            return false;
        }
        let forgotten = entry.epoch < self.epoch;
        let Some(asking) = asking else { return entry.owner.is_none() && forgotten };
        let own_init = |slot: &Slot| {
            slot.uid == asking.uid
                && slot.resource == resource
                && hands_down(slot)
                && slot.container != asking.container
        };
        match &entry.owner {
            Some(owner) if owner.uid != asking.uid => false,
            Some(owner) => {
                forgotten
                    || self.may_have_ended(slots, entry)
                    || slots.iter().any(|slot| own_init(slot) && slot.container == owner.container)
            }
            // kubelet gives out only what it takes for free. That it forgot an open allocation need be feared only
            // while another pod could be the owner.
            None => {
                forgotten
                    || slots.iter().any(|slot| own_init(slot) && slot.count == entry.count)
                    || !slots.iter().any(|slot| slot.uid != asking.uid && self.could_own(slot, entry))
            }
        }
    }
}
