//! What ordinary init containers had. kubelet's books leave them out, but kubelet admits one pod after another and asks
//! for its containers in their order: what was asked for just before a pod's first listed container was the pod's too.
//! Called when the books have been compared.

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger, hands_down};

impl Ledger {
    /// Gives the init containers of every admitted pod what was asked for in a row with the pod's other containers.
    pub(crate) fn follow_the_row(&mut self, slots: &[Slot]) {
        for pod in
            slots.chunk_by(|one, next| one.uid == next.uid).filter(|pod| pod.iter().all(|slot| slot.admitted))
        {
            let count = pod.iter().take_while(|slot| hands_down(slot)).count();
            let (inits, others) = pod.split_at(count);
            for (init, sequence) in self.row_of(inits, others) {
                if let Some(place) = self.entries.iter().position(|entry| entry.sequence == sequence) {
                    self.give(place, init);
                }
            }
        }
    }

    /// The sequence of what each of the first init containers' slots had. Empty if the row cannot be told: where the pod's
    /// first listed container is not in kubelet's books, or what was asked for before is not what these ask for.
    fn row_of<'a>(&self, inits: &'a [Slot], others: &[Slot]) -> Vec<(&'a Slot, u64)> {
        let first = others.chunk_by(|one, next| one.container == next.container).next().unwrap_or_default();
        let listed: Option<Vec<&Entry>> = first
            .iter()
            .map(|slot| self.entry_of(slot).filter(|entry| entry.asked && entry.is_proven()))
            .collect();
        // Of one container kubelet asks for the resources in any order.
        let Some(end) = listed.and_then(|listed| listed.iter().map(|entry| entry.sequence).min()) else {
            return Vec::new();
        };
        let row = end.saturating_sub(inits.len() as u64)..end;
        let mut entries: Vec<&Entry> =
            self.entries.iter().filter(|entry| row.contains(&entry.sequence)).collect();
        entries.sort_by_key(|entry| entry.sequence);
        let mut told = Vec::new();
        for init in inits {
            let fits = |entry: &&Entry| {
                let free = entry.owner.is_none() || entry.is_assumed();
                entry.asked && free && entry.resource == init.resource && entry.count == init.count
            };
            let Some(place) = entries.iter().position(fits) else { return Vec::new() };
            told.push((init, entries.remove(place).sequence));
        }
        told
    }
}
