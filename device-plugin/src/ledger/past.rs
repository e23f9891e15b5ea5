//! What pods have had, by UID, until others were given it: processes of a pod that is gone may still have it open, and kubelet's
//! checkpoint names such a pod only until the next allocation. Asked by `engine`.

use std::collections::BTreeMap;

use neuron_core::ids::CoreSet;

use crate::ledger::{Ledger, Life};

/// Most pods that are remembered. What others are given is forgotten, so that there are hardly more than the node has cores.
const MOST: usize = 1024;

/// What pods have had.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// By UID as kubelet has it, in the order in which they were noted first.
    pods: Vec<(String, CoreSet)>,
}

impl Past {
    /// The pod has these.
    pub(super) fn note(&mut self, uid: &str, cores: CoreSet) {
        match self.pods.iter_mut().find(|(known, _)| known == uid) {
            Some((_, had)) => *had = had.union(cores),
            None if cores.is_empty() => {}
            None => {
                if self.pods.len() == MOST {
                    self.pods.remove(0);
                }
                self.pods.push((uid.to_owned(), cores));
            }
        }
    }
}

impl Ledger {
    /// The pods, by UID, that have had some of these cores and have ended or are gone, with those cores.
    pub fn gone_holders(&self, cores: CoreSet, life: impl Fn(&str) -> Life) -> BTreeMap<String, CoreSet> {
        let had = self.past.pods.iter().map(|(uid, had)| (uid, had.intersection(cores)));
        // Planted: a pod is forgotten that kubelet has forgotten, though its processes may live.
        #[cfg(planted)]
        let had = had.filter(|(uid, _)| {
            !runtime::is_planted("past-of-the-checkpoint-only")
                || self.entries.iter().any(|entry| entry.uid == **uid)
        });
        had.filter(|(uid, had)| !had.is_empty() && self.is_gone(uid, life(uid)))
            .map(|(uid, had)| (uid.clone(), had))
            .collect()
    }

    /// Another pod is given these cores, of which these gone pods have none open any more.
    pub fn handed_over<'a>(&mut self, gone: impl Iterator<Item = &'a String>, cores: CoreSet) {
        for uid in gone {
            self.past.pods.retain_mut(|(known, had)| {
                if known == uid {
                    *had = had.difference(cores);
                }
                !had.is_empty()
            });
        }
    }

    /// Number of pods of which it is remembered what they had.
    pub fn past_count(&self) -> usize {
        self.past.pods.len()
    }

    /// kubelet drops the entries of pods that are inactive, and of no other. What it has forgotten is gone, though the API server still
    /// shows it.
    fn is_gone(&self, uid: &str, life: Life) -> bool {
        match life {
            Life::Lives => self.ended.contains(uid) || self.forgotten.contains(uid),
            Life::Ended | Life::Gone => true,
            Life::Unseen => self.ended.contains(uid) || self.entries.iter().all(|entry| entry.uid != uid),
        }
    }
}
