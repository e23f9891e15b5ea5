//! Which nodes filter has said take a pod, so that bind gives it no others: whoever knows a pod's UID could place it past taints and
//! affinities otherwise. Written by filter, asked by bind.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::reached;
use tokio::time::Instant;

use crate::index::NodeNumber;

/// How long an answer of filter counts: kube-scheduler's own steps between filter and bind may wait for minutes.
pub(crate) const ADMITTED_FOR: Duration = Duration::from_secs(600);

/// Most pods that are remembered, of 4 bytes for each node that takes one: 20 MB where 5,000 nodes take every one.
const MOST: usize = 1024;

/// What filter has admitted.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    /// By the pod's UID.
    by_pod: Mutex<BTreeMap<String, Admission>>,
}

#[derive(Debug)]
struct Admission {
    at: Instant,
    nodes: Box<[NodeNumber]>,
}

impl Admitted {
    /// Filter has said that these nodes take the pod, and no others.
    pub(super) fn admit(&self, uid: &str, nodes: Vec<NodeNumber>) {
        let (mut by_pod, at) = (self.lock(), Instant::now());
        if by_pod.len() >= MOST && !by_pod.contains_key(uid) {
            by_pod.retain(|_, admission| admission.at.elapsed() < ADMITTED_FOR);
            // A pod that is forgotten is asked about again.
            let oldest = by_pod.iter().min_by_key(|(_, admission)| admission.at).map(|(uid, _)| uid.clone());
            if let Some(oldest) = oldest.filter(|_| by_pod.len() >= MOST) {
                reached("extender: oldest admission forgotten");
                by_pod.remove(&oldest);
            }
        }
        by_pod.insert(uid.to_owned(), Admission { at, nodes: nodes.into() });
    }

    /// No node takes the pod, or it is bound.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Whether filter has said lately that the node takes the pod.
    pub(super) fn has(&self, uid: &str, node: NodeNumber) -> bool {
        let by_pod = self.lock();
        let admission = by_pod.get(uid).filter(|admission| admission.at.elapsed() < ADMITTED_FOR);
        admission.is_some_and(|admission| admission.nodes.contains(&node))
    }

    /// How many pods are remembered.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Admission>> {
        self.by_pod.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_admission_counts_for_its_nodes_and_ten_minutes() {
        let (admitted, [one, other]) = (Admitted::default(), [1, 2].map(NodeNumber::from));
        admitted.admit("u", vec![one]);
        assert!(admitted.has("u", one) && !admitted.has("u", other) && !admitted.has("v", one));
        advance(ADMITTED_FOR / 2).await;
        admitted.admit("u", vec![other]);
        assert!(admitted.has("u", other) && !admitted.has("u", one), "the last answer counts");
        advance(ADMITTED_FOR).await;
        assert!(!admitted.has("u", other));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_are_forgotten() {
        let (admitted, node) = (Admitted::default(), NodeNumber::from(1));
        for number in 0..MOST + 10 {
            admitted.admit(&format!("u{number}"), vec![node]);
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(admitted.len(), MOST);
        assert!(!admitted.has("u9", node) && admitted.has("u10", node));
    }
}
