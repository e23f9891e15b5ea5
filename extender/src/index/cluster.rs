//! The index behind a lock that is never held across an await, and who waits for it. Shared by everyone.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use runtime::Gap;
use tokio::sync::{Notify, SetOnce};
use tokio::time::{timeout, timeout_at};

use super::{Indeterminate, Index, Relist};

/// How long a call waits for the first lists: kube-scheduler's own limit is 5 s unless configured.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// A missing watch of Leases puts off refusals for so long.
const LEASE_GAP: Duration = Duration::from_secs(30);
/// How long after the end of a watch calls wait for the next one.
const GAP_TIMEOUT: Duration = Duration::from_secs(1);

/// What the extender knows of pods and nodes.
#[derive(Debug)]
pub(crate) struct Cluster {
    index: RwLock<Index>,
    /// Set once pods and nodes have been listed. Not a `watch`: that one wakes its waiters in a random order.
    listed: SetOnce<()>,
    changed: Notify,
    /// Of the watch of pods.
    pub(crate) pod_gap: Gap,
    /// Of the watch of nodes.
    pub(crate) node_gap: Gap,
    /// Of the watch of the device plugins' Leases.
    pub(crate) lease_gap: Gap,
    /// Has the pods listed anew.
    pub(crate) relist: Relist,
}

impl Cluster {
    /// A cluster of which nothing is known yet.
    pub(crate) fn new(index: Index) -> Self {
        let [pod_gap, node_gap, lease_gap] =
            [&index.pod_watch, &index.node_watch, &index.leases.watch].map(|watched| watched.gap.clone());
        Self {
            index: RwLock::new(index),
            listed: SetOnce::new(),
            changed: Notify::new(),
            pod_gap,
            node_gap,
            lease_gap,
            relist: Relist::default(),
        }
    }

    /// Looks at the index.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Index) -> R) -> R {
        look(&self.index.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the index.
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut Index) -> R) -> R {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut index);
        let (listed, unexplained) = (index.is_listed(), index.has_unexplained());
        drop(index);
        if listed {
            // Of two writers the other may have set it.
            let _ = self.listed.set(());
        }
        if unexplained {
            self.changed.notify_one();
        }
        result
    }

    /// Whether pods and nodes have been listed.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed.initialized()
    }

    /// Waits until pods and nodes have been listed, however long that takes.
    pub(crate) async fn is_listed_at_last(&self) {
        self.listed.wait().await;
    }

    /// Waits until pods and nodes have been listed.
    ///
    /// # Errors
    /// They were not within two seconds.
    pub(crate) async fn listed(&self) -> Result<(), Indeterminate> {
        timeout(LIST_TIMEOUT, self.listed.wait()).await.copied().map_err(|_| Indeterminate::BeforeFirstList)
    }

    /// Whether a watch has ended and is being taken up again: pods may have ended, or nodes come, unseen.
    pub(crate) fn is_between_watches(&self) -> bool {
        self.pod_gap.is_open() || self.node_gap.is_open()
    }

    /// Whether the watch of the plugins' Leases is being taken up again: those that count as silent may have renewed theirs unseen. Where
    /// that takes long, as without the right to it, those that were silent before count as gone.
    pub(crate) fn is_between_lease_watches(&self) -> bool {
        self.lease_gap.since().is_some_and(|since| since.elapsed() <= LEASE_GAP)
    }

    /// Waits until both watches tell again what happens, for a second at most after they ended: kube-scheduler asks for one pod after
    /// another, and each would wait.
    pub(crate) async fn watches_again(&self) {
        for gap in [&self.pod_gap, &self.node_gap] {
            tells_again(gap).await;
        }
    }

    /// The same of the watch of Leases.
    pub(crate) async fn lease_watch_again(&self) {
        tells_again(&self.lease_gap).await;
    }

    /// Waits until the index has changed in a way that may have to be explained. For one waiter: the explainer.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

async fn tells_again(gap: &Gap) {
    let Some(since) = gap.since() else { return };
    // The caller looks again, whether it does or not.
    let _ = timeout_at(since + GAP_TIMEOUT, gap.closed()).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuron_core::catalog::Catalog;
    use neuron_core::topology::Policy;

    use super::*;
    use crate::index::{Advertised, Change, ObservedNode, TopologyCache};

    fn cluster() -> Cluster {
        let catalog = Arc::new(Catalog::embedded().clone());
        Cluster::new(Index::new(TopologyCache::new(catalog, Policy::Documented)))
    }

    #[tokio::test]
    async fn what_has_been_listed_once_stays_so() {
        let cluster = cluster();
        assert!(!cluster.is_listed());
        cluster.write(|index| index.change_pods(Change::Listed(Vec::new())));
        cluster.write(|index| index.change_nodes(Change::Listed(Vec::new())));
        cluster.write(|index| index.change_pods(Change::Disconnected));
        assert!(cluster.is_listed());
        assert_eq!(cluster.listed().await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_the_lists_but_not_for_ever() {
        let cluster = cluster();
        let began = tokio::time::Instant::now();
        assert_eq!(cluster.listed().await, Err(Indeterminate::BeforeFirstList));
        assert_eq!(began.elapsed().as_secs(), 2);
        let list = async {
            cluster.write(|index| index.change_pods(Change::Listed(Vec::new())));
            assert!(!cluster.is_listed());
            cluster.write(|index| index.change_nodes(Change::Listed(Vec::new())));
        };
        let (listed, ()) = tokio::join!(cluster.listed(), list);
        assert_eq!(listed, Ok(()));
        assert!(cluster.read(Index::is_listed));
    }

    #[tokio::test(start_paused = true)]
    async fn the_explainer_is_woken_by_what_is_to_be_explained() {
        let cluster = cluster();
        let is_woken = async || timeout(Duration::from_secs(1), cluster.changed()).await.is_ok();
        cluster.write(|index| index.change_pods(Change::Listed(Vec::new())));
        assert!(!is_woken().await, "an empty list");
        let node = ObservedNode {
            name: "n1".to_owned(),
            instance_type: None,
            report: None,
            advertised: Advertised::default(),
        };
        cluster.write(|index| index.change_nodes(Change::Applied(node)));
        assert!(is_woken().await);
    }
}
