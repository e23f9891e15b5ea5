//! What containers run with while kubelet gives them something else. A kubelet that restarts on an old list of pods ends the containers
//! that it does not know, and asks anew for their pod as soon as it hears of it, within their grace. Kept by [`Ledger`].

use std::collections::BTreeMap;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use runtime::reached;
use tokio::time::Instant;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger};

/// A pod's UID as kubelet has it, a container and a resource.
type Key = (String, String, Resource);

/// The running containers.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    running: BTreeMap<Key, Run>,
}

#[derive(Clone, Debug)]
struct Run {
    /// The container's id, another one for each run.
    id: String,
    /// Since when it is known.
    seen: Instant,
    /// What the checkpoint gave it once it was known to run; none until that was read.
    has: Option<CoreSet>,
}

impl Runs {
    /// Follows which containers run, as the pods say.
    pub(super) fn follow(&mut self, slots: &[Slot], now: Instant) {
        let mut before = std::mem::take(&mut self.running);
        for slot in slots {
            let Some(id) = &slot.run else { continue };
            let key = (slot.kubelet_uid.clone(), slot.container.clone(), slot.resource);
            let known = before.remove(&key).filter(|run| run.id == *id);
            let run = known.unwrap_or_else(|| Run { id: id.clone(), seen: now, has: None });
            self.running.insert(key, run);
        }
    }

    /// Takes over the checkpoint as it was at some time after `began`. kubelet writes down what a container gets before it starts it, so
    /// that a container that ran by then has what it says; one that may have started since may have something newer.
    pub(super) fn confirm(&mut self, entries: &[Entry], began: Instant) {
        for ((uid, container, resource), run) in &mut self.running {
            if run.has.is_none() && run.seen < began {
                let own = entries.iter().filter(|entry| {
                    entry.uid == *uid && entry.container == *container && entry.resource == *resource
                });
                run.has = own.map(|entry| entry.cores).reduce(CoreSet::union);
            }
        }
    }
}

impl Ledger {
    /// The cores that a slot's container runs with and that the checkpoint does not give it any more, of a pod that kubelet has: they are
    /// held until it ends.
    pub(crate) fn runs_on_with(&self, slot: &Slot) -> CoreSet {
        let key = (slot.kubelet_uid.clone(), slot.container.clone(), slot.resource);
        let run = self.runs.running.get(&key).filter(|run| slot.run.as_ref() == Some(&run.id));
        let Some(has) = run.and_then(|run| run.has) else { return CoreSet::EMPTY };
        let more = has.difference(self.entry_of(slot).unwrap_or_default());
        if more.is_empty() || self.forgotten.contains(&slot.kubelet_uid) {
            return CoreSet::EMPTY;
        }
        reached("plugin: container runs on with what it had before");
        more
    }
}
