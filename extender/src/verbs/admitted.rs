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

/// With fewer pods than this, those whose admissions have ended are not looked for.
const FEW: usize = 64;

/// What filter has admitted.
#[derive(Debug, Default)]
pub(crate) struct Admitted {
    pods: Mutex<Pods>,
}

#[derive(Debug, Default)]
struct Pods {
    /// By the pod's UID.
    by_uid: BTreeMap<String, Admission>,
    /// Number of pods at which those go whose admissions have ended: most were bound or deleted by another extender's doing.
    prune_at: usize,
}

#[derive(Debug)]
struct Admission {
    at: Instant,
    nodes: Box<[NodeNumber]>,
}

impl Admitted {
    /// Filter has said that these nodes take the pod, and no others.
    pub(super) fn admit(&self, uid: &str, nodes: Vec<NodeNumber>) {
        let Pods { by_uid, prune_at } = &mut *self.lock();
        if by_uid.len() >= (*prune_at).clamp(FEW, MOST) && !by_uid.contains_key(uid) {
            by_uid.retain(|_, admission| admission.at.elapsed() < ADMITTED_FOR);
            *prune_at = by_uid.len() * 2;
            // A pod that is forgotten is asked about again.
            let oldest = by_uid.iter().min_by_key(|(_, admission)| admission.at).map(|(uid, _)| uid.clone());
            if let Some(oldest) = oldest.filter(|_| by_uid.len() >= MOST) {
                reached("extender: oldest admission forgotten");
                by_uid.remove(&oldest);
            }
        }
        by_uid.insert(uid.to_owned(), Admission { at: Instant::now(), nodes: nodes.into() });
    }

    /// No node takes the pod, or it is bound.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().by_uid.remove(uid);
    }

    /// Whether filter has said lately that the node takes the pod.
    pub(super) fn has(&self, uid: &str, node: NodeNumber) -> bool {
        let pods = self.lock();
        let admission = pods.by_uid.get(uid).filter(|admission| admission.at.elapsed() < ADMITTED_FOR);
        admission.is_some_and(|admission| admission.nodes.contains(&node))
    }

    /// How many pods are remembered.
    pub(crate) fn len(&self) -> usize {
        self.lock().by_uid.len()
    }

    fn lock(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
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
    async fn pods_whose_admissions_have_ended_do_not_pile_up() {
        let (admitted, node) = (Admitted::default(), NodeNumber::from(1));
        for number in 0..50 * FEW {
            admitted.admit(&format!("u{number}"), vec![node]);
            advance(ADMITTED_FOR / 10).await;
        }
        assert!(admitted.len() <= FEW, "{}", admitted.len());
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
