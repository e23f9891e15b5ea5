//! This plugin's own answers, until kubelet has written them down. One ends when the checkpoint names it, when kubelet offers its
//! ids again under that name, when kubelet restarts, or when no container is left that can have got it; never by time.

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use runtime::reached;
use tokio::time::Instant;

use crate::ledger::slot::Slot;
use crate::ledger::{Entry, Ledger};

/// A request for ids: of which name, and the cores that they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The name that is asked under, such as `aws.amazon.com/neuron`.
    pub name: &'static str,
    /// What one id of that name stands for.
    pub resource: Resource,
    /// The cores of the ids.
    pub cores: CoreSet,
    /// Number of ids, at least 1.
    pub count: u32,
}

/// An answered Allocate that the checkpoint does not name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The name that was asked under.
    pub name: &'static str,
    /// What one id of that name stands for.
    pub resource: Resource,
    /// The cores that it takes.
    pub cores: CoreSet,
    /// Number of ids.
    pub count: u32,
    /// When it was given.
    pub at: Instant,
    /// Whether it has the host's numbers where others are counted from 0.
    pub by_host: bool,
    /// Entries of the same ids that stood in the checkpoint then: of pods that had ended, and of an init container.
    before: Vec<(String, String)>,
}

impl Answer {
    /// Whether the checkpoint names a container that has got it.
    pub(super) fn is_named_by(&self, entries: &[Entry]) -> bool {
        entries.iter().filter(|entry| entry.name == self.name && entry.cores == self.cores).any(|entry| {
            !self.before.iter().any(|(uid, container)| *uid == entry.uid && *container == entry.container)
        })
    }

    /// Whether a slot that the checkpoint does not name can have got it.
    pub(super) fn suits(&self, slot: &Slot) -> bool {
        slot.resource == self.resource && slot.count == self.count
    }
}

impl Ledger {
    /// Writes down an answer that is about to be given.
    pub fn answer(&mut self, asked: &Asked, now: Instant) {
        let Asked { name, resource, cores, count } = *asked;
        // kubelet offers what it takes for free: what it offers again under the same name was had by nobody, or is handed down.
        self.answers.retain_mut(|answer| {
            if answer.name == name && answer.cores.intersects(cores) {
                reached("plugin: answer offered again");
                answer.cores = answer.cores.difference(cores);
            }
            !answer.cores.is_empty()
        });
        let same = self.entries.iter().filter(|entry| entry.name == name && entry.cores == cores);
        let before = same.map(|entry| (entry.uid.clone(), entry.container.clone())).collect();
        self.answers.push(Answer { name, resource, cores, count, at: now, by_host: false, before });
    }

    /// The last answer has the host's numbers, as what its container gets under the other name then must.
    pub fn answered_by_host(&mut self) {
        if let Some(answer) = self.answers.last_mut() {
            answer.by_host = true;
        }
    }
}
