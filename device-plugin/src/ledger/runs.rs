//! What containers run with while kubelet gives them something else. A kubelet that restarts on an old list of pods ends the containers
//! that it does not know, and asks anew for their pod as soon as it hears of it, within their grace. Kept by [`Ledger`].

use std::collections::BTreeMap;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use runtime::reached;
use tokio::time::Instant;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger};

/// The running containers, by their pod's UID as kubelet has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    running: BTreeMap<String, Vec<Run>>,
}

/// What a running container has of one resource.
#[derive(Clone, Debug)]
struct Run {
    container: String,
    resource: Resource,
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
        let before = std::mem::take(self);
        for slot in slots {
            let Some(id) = &slot.run else { continue };
            let run = before.of(slot).cloned().unwrap_or_else(|| Run {
                container: slot.container.clone(),
                resource: slot.resource,
                id: id.clone(),
                seen: now,
                has: None,
            });
            self.running.entry(slot.kubelet_uid.clone()).or_default().push(run);
        }
    }

    /// The present run of the slot's container, if it is known.
    fn of(&self, slot: &Slot) -> Option<&Run> {
        let (id, of_pod) = (slot.run.as_ref()?, self.running.get(&slot.kubelet_uid)?);
        of_pod
            .iter()
            .find(|run| run.id == *id && run.container == slot.container && run.resource == slot.resource)
    }

    /// Takes over the checkpoint as it was at some time after `began`. kubelet writes down what a container gets before it starts it, so
    /// that a container that ran by then has what it says; one that may have started since may have something newer.
    pub(super) fn confirm(&mut self, entries: &[Entry], began: Instant) {
        for (uid, runs) in &mut self.running {
            for run in runs.iter_mut().filter(|run| run.has.is_none() && run.seen < began) {
                let own = entries.iter().filter(|entry| {
                    entry.uid == *uid && entry.container == run.container && entry.resource == run.resource
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
        let Some(has) = self.runs.of(slot).and_then(|run| run.has) else { return CoreSet::EMPTY };
        let more = has.difference(self.entry_of(slot).unwrap_or_default());
        if more.is_empty() || self.forgotten.contains(&slot.kubelet_uid) {
            return CoreSet::EMPTY;
        }
        reached("plugin: container runs on with what it had before");
        more
    }
}
