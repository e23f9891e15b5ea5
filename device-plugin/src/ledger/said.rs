//! What kubelet's checkpoint said last of each container whose pod is there: a write of an older state can overwrite a newer one
//! (docs/reference/kubernetes.md §7), and what the file once named a container has, whatever its record says by then. Kept by [`Ledger`].

use std::collections::{BTreeMap, BTreeSet};

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use runtime::reached;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger};

/// By the pod's UID as kubelet has it, then by container and resource.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    of_pod: BTreeMap<String, Vec<(String, Resource, CoreSet)>>,
}

impl Said {
    /// Takes over what the checkpoint says now. What it no longer names stays.
    pub(super) fn note(&mut self, entries: &[Entry]) {
        let mut now: BTreeMap<(&str, &str, Resource), CoreSet> = BTreeMap::new();
        for Entry { uid, container, resource, cores, .. } in entries {
            let all = now.entry((uid, container, *resource)).or_default();
            *all = all.union(*cores);
        }
        for ((uid, container, resource), cores) in now {
            let own = self.of_pod.entry(uid.to_owned()).or_default();
            match own.iter_mut().find(|(of, unit, _)| of == container && *unit == resource) {
                Some((_, _, said)) => *said = cores,
                None => own.push((container.to_owned(), resource, cores)),
            }
        }
    }

    /// Forgets pods of which neither the checkpoint nor any list tells.
    pub(super) fn retain(&mut self, slots: &[Slot], is_named: impl Fn(&str) -> bool) {
        let there: BTreeSet<&str> = slots.iter().map(|slot| slot.kubelet_uid.as_str()).collect();
        self.of_pod.retain(|uid, _| there.contains(uid.as_str()) || is_named(uid));
    }

    fn of(&self, slot: &Slot) -> Option<CoreSet> {
        let own = self.of_pod.get(&slot.kubelet_uid)?;
        own.iter()
            .find(|(of, unit, _)| *of == slot.container && *unit == slot.resource)
            .map(|(_, _, cores)| *cores)
    }
}

impl Ledger {
    /// What a slot has that the checkpoint does not name: what it said last, or else the slot's record.
    pub(crate) fn last_known(&self, slot: &Slot) -> Option<CoreSet> {
        let said = self.said_last.of(slot);
        if said.is_some() && said != slot.recorded {
            reached("plugin: checkpoint of before believed over a record");
        }
        said.or(slot.recorded)
    }
}
