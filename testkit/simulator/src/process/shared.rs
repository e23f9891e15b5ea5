//! What all processes of a simulation share. Made by `simulation`, handed on by hosts to their processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::changes::Changes;
use crate::network::Network;
use crate::parts::Parts;
use crate::random::{self, Rng};
use crate::time::Clock;
use crate::trace::Trace;

/// What all processes share.
pub(crate) struct Shared {
    seed: u64,
    pub(crate) clock: Clock,
    pub(crate) trace: Trace,
    pub(crate) parts: Parts,
    pub(crate) network: Arc<Network>,
    pub(crate) changes: Changes,
    processes: AtomicU64,
}

impl Shared {
    pub(crate) fn new(seed: u64, clock: Clock, trace: Trace, parts: Parts) -> Self {
        Self {
            seed,
            clock,
            trace,
            parts,
            network: Arc::new(Network::new(seed)),
            changes: Changes::default(),
            processes: AtomicU64::new(0),
        }
    }

    /// The stream of random numbers of this label.
    pub(crate) fn stream(&self, label: &str) -> Rng {
        random::stream(self.seed, label)
    }

    /// The number of a process that starts.
    pub(super) fn next_process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }
}
