//! How much a running plugin keeps. A plugin runs for months, so whoever runs it for simulated months must see that nothing it
//! keeps grows without end; from outside the process's memory tells too little. Handed in by [`crate::Config`], counted only
//! when it is asked.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers of everything that a plugin keeps and that grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Entries of kubelet's checkpoint.
    pub entries: usize,
    /// Answers that kubelet has not written down yet.
    pub answers: usize,
    /// Pods of which it is remembered what they had: of those that are gone, what nobody else was given since.
    pub past: usize,
    /// Pods of the node that ask for Neuron devices, terminal ones included.
    pub pods: usize,
    /// Pods that a list which has not ended has shown.
    pub listed: usize,
    /// UIDs of pods that have gone, remembered so that an old answer does not bring them back.
    pub gone: usize,
    /// What the last look of the upkeep could not do.
    pub failures: usize,
    /// Parts of the plugin that cannot do their work.
    pub problems: usize,
    /// What else the operator should look after.
    pub notes: usize,
}

type Count = dyn Fn() -> Option<Sizes> + Send;

/// Shows the sizes of a plugin: of those that were started with it and still run, the one that was started last. Clones show the same.
#[derive(Clone, Default)]
pub struct Probe {
    counts: Arc<Mutex<Vec<Box<Count>>>>,
}

impl Probe {
    /// The sizes now; none while no plugin runs with this probe.
    pub fn sizes(&self) -> Option<Sizes> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().rev().find_map(|count| count())
    }

    /// Shows from now on what `count` says.
    pub(crate) fn show(&self, count: impl Fn() -> Option<Sizes> + Send + 'static) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|count| count().is_some());
        counts.push(Box::new(count));
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}
