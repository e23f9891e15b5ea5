//! The index behind a lock that is never held across an await, and who waits for it. Shared by everyone.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::Index;

/// How long a call waits for the first lists: kube-scheduler's own limit is 5 s unless configured.
const LIST_WAIT: Duration = Duration::from_secs(2);

/// What the extender knows of pods and nodes.
#[derive(Debug)]
pub(crate) struct Cluster {
    index: RwLock<Index>,
    listed: watch::Sender<bool>,
    changed: Notify,
}

/// A call came before the watches had listed the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pods and nodes of the cluster have not been listed yet; try again")]
pub(crate) struct NotListed;

impl Cluster {
    /// A cluster of which nothing is known yet.
    pub(crate) fn new(index: Index) -> Self {
        Self { index: RwLock::new(index), listed: watch::Sender::new(false), changed: Notify::new() }
    }

    /// Looks at the index.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Index) -> R) -> R {
        look(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the index.
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut Index) -> R) -> R {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut index);
        let (listed, fresh) = (index.is_listed(), index.has_fresh());
        drop(index);
        self.note_listed(listed);
        if fresh {
            self.changed.notify_one();
        }
        result
    }

    /// Once everything has been listed that stays so: of two writers the one that came first may speak last.
    fn note_listed(&self, listed: bool) {
        self.listed.send_if_modified(|before| listed && !std::mem::replace(before, true));
    }

    /// Whether pods and nodes have been listed.
    pub(crate) fn is_listed(&self) -> bool {
        *self.listed.borrow()
    }

    /// Waits until pods and nodes have been listed, or for two seconds.
    pub(crate) async fn listed(&self) -> Result<(), NotListed> {
        if self.is_listed() {
            return Ok(());
        }
        let mut listed = self.listed.subscribe();
        let waited = timeout(LIST_WAIT, listed.wait_for(|listed| *listed)).await;
        waited.ok().and_then(Result::ok).map(|_| ()).ok_or(NotListed)
    }

    /// Waits until the index has something fresh. For one waiter: the explainer.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use neuron_core::catalog::Catalog;
    use neuron_core::topology::Policy;

    use super::*;
    use crate::index::Shapes;

    #[tokio::test]
    async fn who_speaks_late_of_lists_that_were_not_complete_takes_nothing_back() {
        let catalog = std::sync::Arc::new(Catalog::embedded().clone());
        let cluster = Cluster::new(Index::new(Shapes::new(catalog, Policy::Documented)));
        assert!(!cluster.is_listed());
        cluster.note_listed(true);
        cluster.note_listed(false);
        assert!(cluster.is_listed());
        assert_eq!(cluster.listed().await, Ok(()));
    }
}
