//! Which nodes filter has said take a pod, so that bind gives it no others: whoever knows a pod's UID could place it past taints and
//! affinities otherwise. Written by filter, asked by bind.
//!
//! Filter is called by others than kube-scheduler, too, such as autoscalers, about any nodes. What it has said to one is not taken back by
//! what it says to another.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::reached;
use tokio::time::Instant;

use crate::index::NodeNumber;

/// How long an answer of filter counts: kube-scheduler's own steps between filter and bind may wait for minutes.
pub(crate) const ADMITTED_FOR: Duration = Duration::from_secs(600);

/// Most pods that are remembered, of 8 bytes for each node that takes one: 40 MB where 5,000 nodes take every one.
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

/// What filter has said of one pod.
#[derive(Debug)]
struct Admission {
    /// When it said so first.
    began: Instant,
    /// When it said so last.
    last: Instant,
    /// Each node once.
    nodes: Vec<AdmittedNode>,
}

/// A node that takes the pod.
#[derive(Clone, Copy, Debug)]
struct AdmittedNode {
    number: NodeNumber,
    /// When filter said so last, in seconds since it said anything of the pod.
    at: u32,
}

impl Admission {
    fn new() -> Self {
        let now = Instant::now();
        Self { began: now, last: now, nodes: Vec::new() }
    }

    /// Filter has said that these nodes take the pod, each named once. Others that it has named count as long as they would have.
    fn admit(&mut self, numbers: &[NodeNumber]) {
        self.last = Instant::now();
        let at = self.now();
        // Mostly they are the first ones, or the same.
        if self.nodes.iter().map(|node| node.number).eq(numbers.iter().copied()) {
            self.nodes.iter_mut().for_each(|node| node.at = at);
            return;
        }
        if !self.nodes.is_empty() {
            let mut again = numbers.to_vec();
            again.sort_unstable();
            self.nodes.retain(|node| node.counts(at) && again.binary_search(&node.number).is_err());
        }
        self.nodes.extend(numbers.iter().map(|&number| AdmittedNode { number, at }));
        self.nodes.shrink_to_fit();
    }

    fn has(&self, number: NodeNumber) -> bool {
        let now = self.now();
        self.nodes.iter().any(|node| node.number == number && node.counts(now))
    }

    /// The time in seconds since filter said anything of the pod.
    fn now(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_secs()).unwrap_or(u32::MAX)
    }
}

impl AdmittedNode {
    fn counts(self, now: u32) -> bool {
        u64::from(now.saturating_sub(self.at)) < ADMITTED_FOR.as_secs()
    }
}

impl Admitted {
    /// Filter has said that these nodes take the pod, each named once. `still_waits` says of a UID whether its pod waits.
    pub(super) fn admit(&self, uid: &str, nodes: &[NodeNumber], still_waits: impl Fn(&str) -> bool) {
        let Pods { by_uid, prune_at } = &mut *self.lock();
        if by_uid.len() >= (*prune_at).clamp(FEW, MOST) && !by_uid.contains_key(uid) {
            by_uid.retain(|_, admission| admission.last.elapsed() < ADMITTED_FOR);
            *prune_at = by_uid.len() * 2;
            if by_uid.len() >= MOST {
                // A pod that waits and is forgotten is asked about again; who makes up UIDs has his own forgotten.
                let key = |(uid, admission): &(&String, &Admission)| (still_waits(uid), admission.last);
                let oldest = by_uid.iter().min_by_key(key).map(|(uid, _)| uid.clone());
                if let Some(uid) = oldest {
                    reached("extender: oldest admission forgotten");
                    by_uid.remove(&uid);
                }
            }
        }
        by_uid.entry(uid.to_owned()).or_insert_with(Admission::new).admit(nodes);
    }

    /// The pod is bound.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().by_uid.remove(uid);
    }

    /// Whether filter has said lately that the node takes the pod.
    pub(super) fn has(&self, uid: &str, node: NodeNumber) -> bool {
        self.lock().by_uid.get(uid).is_some_and(|admission| admission.has(node))
    }

    /// How many pods are remembered.
    pub(crate) fn len(&self) -> usize {
        self.lock().by_uid.len()
    }

    /// How many nodes are remembered of a pod.
    #[cfg(test)]
    pub(super) fn nodes_of(&self, uid: &str) -> usize {
        self.lock().by_uid.get(uid).map_or(0, |admission| admission.nodes.len())
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
        admitted.admit("u", &[one], |_| true);
        assert!(admitted.has("u", one) && !admitted.has("u", other) && !admitted.has("v", one));
        advance(ADMITTED_FOR / 2).await;
        admitted.admit("u", &[other], |_| true);
        assert!(admitted.has("u", other) && admitted.has("u", one), "every answer counts");
        advance(ADMITTED_FOR / 2).await;
        assert!(admitted.has("u", other) && !admitted.has("u", one), "each for ten minutes");
        advance(ADMITTED_FOR / 2).await;
        assert!(!admitted.has("u", other));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_is_admitted_again_counts_from_then() {
        let (admitted, [one, two, three]) = (Admitted::default(), [1, 2, 3].map(NodeNumber::from));
        for again in [vec![one, two], vec![two, one], vec![two, three, one]] {
            admitted.admit("u", &[one, two], |_| true);
            advance(ADMITTED_FOR / 2).await;
            admitted.admit("u", &again, |_| true);
            advance(ADMITTED_FOR * 3 / 4).await;
            assert!(admitted.has("u", one) && admitted.has("u", two));
        }
        assert!(admitted.has("u", three));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_remembered_once() {
        let admitted = Admitted::default();
        let nodes = |from: u32| (from..from + 100).map(NodeNumber::from).collect::<Vec<_>>();
        for call in 0..1000 {
            admitted.admit("u", &nodes(call % 50), |_| true);
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(admitted.nodes_of("u"), 149);
    }

    #[tokio::test(start_paused = true)]
    async fn pods_whose_admissions_have_ended_do_not_pile_up() {
        let (admitted, node) = (Admitted::default(), NodeNumber::from(1));
        for number in 0..50 * FEW {
            admitted.admit(&format!("u{number}"), &[node], |_| true);
            advance(ADMITTED_FOR / 10).await;
        }
        assert!(admitted.len() <= FEW, "{}", admitted.len());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_are_forgotten() {
        let (admitted, node) = (Admitted::default(), NodeNumber::from(1));
        for number in 0..MOST + 10 {
            admitted.admit(&format!("u{number}"), &[node], |_| true);
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(admitted.len(), MOST);
        assert!(!admitted.has("u9", node) && admitted.has("u10", node));
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_somebody_makes_up_have_no_other_forgotten() {
        let (admitted, node) = (Admitted::default(), NodeNumber::from(1));
        let is_real = |uid: &str| uid == "real";
        admitted.admit("real", &[node], is_real);
        for number in 0..2 * MOST {
            advance(Duration::from_millis(1)).await;
            admitted.admit(&format!("made-up-{number}"), &[node], is_real);
        }
        assert_eq!(admitted.len(), MOST);
        assert!(admitted.has("real", node));
    }
}
