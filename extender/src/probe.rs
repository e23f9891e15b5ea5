//! How much a running extender remembers. Set by [`crate::serve`], read by who judges its memory: a simulation of months sees
//! by it what grows and never shrinks again, long before the process' own memory would show it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The number of entries of everything that grows with the cluster, or with what happens in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pods that ask for Neuron hardware, get it from a ResourceClaim or carry a record.
    pub pods: usize,
    /// Nodes, with Neuron hardware or without.
    pub nodes: usize,
    /// Topologies of nodes; nodes that are alike share one.
    pub topologies: usize,
    /// Leases of device plugins.
    pub leases: usize,
    /// Reservations, by pod and node.
    pub reservations: usize,
    /// Cores that count as taken, of all nodes: by holders, and by reservations.
    pub cores_taken: usize,
    /// Pods and nodes that have changed, and that the explainer has not looked at.
    pub unexplained: usize,
    /// Events that were sent, of pods that are still there.
    pub events_sent: usize,
    /// Events that may turn out not to be needed, and those that could not be sent.
    pub events_waiting: usize,
    /// Pods whose last refusal is remembered, so that it is not logged again.
    pub refusals_logged: usize,
    /// Binds under way.
    pub binds: usize,
    /// Pods of which it is remembered which nodes take them.
    pub admitted: usize,
}

/// A look into a running extender: put it into its [`crate::Config`] and keep a clone. Nothing is counted until somebody looks.
/// Clones look into the same extender: of those that were started with any of them and still run, the one that was started last.
#[derive(Clone, Default)]
pub struct Probe {
    looks: Arc<Mutex<Vec<Weak<Look>>>>,
}

type Look = dyn Fn() -> Sizes + Send + Sync;

impl Probe {
    /// One that looks into no extender yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How much the extender remembers now; `None` while it does not run.
    pub fn sizes(&self) -> Option<Sizes> {
        // Looking takes locks of its own, so this one is let go first.
        let look = self.lock().iter().rev().find_map(Weak::upgrade)?;
        Some(look())
    }

    /// Has it look this way until what is returned is dropped.
    pub(crate) fn looks_by(&self, look: impl Fn() -> Sizes + Send + Sync + 'static) -> Arc<Look> {
        let look: Arc<Look> = Arc::new(look);
        let mut looks = self.lock();
        looks.retain(|look| look.strong_count() > 0);
        looks.push(Arc::downgrade(&look));
        look
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Look>>> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}
