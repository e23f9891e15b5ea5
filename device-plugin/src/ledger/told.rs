//! What kubelet has told of its own pods a moment ago, beside what the API server shows: it has a pod before it asks for it, and knows
//! of an end first. Its word counts for the question at hand and not for long. Kept by [`crate::pods`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::ledger::slot::NodePod;
use crate::ledger::{Life, is_static};

/// How long kubelet's word counts: as long as a question of its own may wait.
const LASTS: Duration = Duration::from_secs(5);

/// The Neuron pods that kubelet had, static ones included.
#[derive(Clone, Debug)]
pub struct Told {
    /// When it was asked.
    asked: Instant,
    /// Its pods, by their UIDs as it has them.
    pods: BTreeMap<String, Arc<NodePod>>,
}

impl Told {
    /// What kubelet has told, asked at that time.
    pub fn new(asked: Instant, pods: Vec<NodePod>) -> Self {
        Told { asked, pods: pods.into_iter().map(|pod| (pod.kubelet_uid.clone(), Arc::new(pod))).collect() }
    }

    /// Whether it still counts.
    pub fn is_fresh(&self, now: Instant) -> bool {
        now < self.asked + LASTS
    }

    /// What is known of a pod of which the API server says `shown`. Only kubelet's word for an end and for a pod that the API server
    /// does not show yet adds to that.
    pub fn life(&self, kubelet_uid: &str, shown: Life) -> Life {
        match (self.pods.get(kubelet_uid), shown) {
            (Some(pod), Life::Lives | Life::Unseen) if pod.pod.terminal => Life::Ended,
            (Some(_), Life::Unseen) => Life::Lives,
            _ => shown,
        }
    }

    /// The pods that the API server shows, with those of kubelet that it does not show yet, and with the ends that kubelet knows of.
    /// `is_gone` are UIDs that it shows no more.
    pub fn beside(
        &self,
        shown: Option<&BTreeMap<String, Arc<NodePod>>>,
        is_gone: impl Fn(&str) -> bool,
    ) -> Vec<Arc<NodePod>> {
        let mut pods: Vec<Arc<NodePod>> = shown.into_iter().flat_map(BTreeMap::values).cloned().collect();
        for pod in pods.iter_mut().filter(|pod| !pod.pod.terminal) {
            if self.pods.get(&pod.kubelet_uid).is_some_and(|told| told.pod.terminal) {
                Arc::make_mut(pod).pod.terminal = true;
            }
        }
        // A static pod is known by its mirror.
        let is_new = |pod: &&Arc<NodePod>| {
            let is_shown = pods.iter().any(|shown| shown.kubelet_uid == pod.kubelet_uid);
            !is_shown && !is_gone(&pod.pod.uid) && !is_static(&pod.kubelet_uid)
        };
        let new: Vec<Arc<NodePod>> = self.pods.values().filter(is_new).cloned().collect();
        pods.extend(new);
        pods
    }

    /// Whether kubelet had the pod when it was asked.
    pub fn has(&self, kubelet_uid: &str) -> bool {
        self.pods.contains_key(kubelet_uid)
    }

    /// Whether kubelet has forgotten the pod, to which it had given something by `given`: it had no such pod when it was asked after that.
    pub fn has_forgotten(&self, kubelet_uid: &str, given: Option<Instant>) -> bool {
        !self.has(kubelet_uid) && given.is_none_or(|given| self.asked > given)
    }
}

#[cfg(test)]
mod tests {
    use neuron_core::pod::{BoundPod, PodSpec};

    use super::*;

    fn pod(uid: &str, terminal: bool) -> NodePod {
        let pod = BoundPod::new("d", uid, uid, BTreeMap::new(), &PodSpec::default(), None);
        let pod = BoundPod { terminal, ..pod };
        NodePod::of(pod, 1)
    }

    #[test]
    fn kubelets_word_adds_to_what_is_shown_and_takes_nothing_away() {
        let told = Told::new(Instant::now(), vec![pod("new", false), pod("ended", true), pod("gone", false)]);
        let life = |uid, shown| told.life(uid, shown);
        assert_eq!(life("new", Life::Unseen), Life::Lives);
        assert_eq!(life("ended", Life::Lives), Life::Ended);
        assert_eq!(life("gone", Life::Gone), Life::Gone);
        assert_eq!(life("not told", Life::Lives), Life::Lives, "it may not have heard of it yet");
        let shown = BTreeMap::from(["ended", "other"].map(|uid| (uid.to_owned(), Arc::new(pod(uid, false)))));
        let beside = told.beside(Some(&shown), |uid| uid == "gone");
        let said: Vec<_> = beside.iter().map(|pod| (&*pod.pod.uid, pod.pod.terminal)).collect();
        assert_eq!(said, [("ended", true), ("other", false), ("new", false)]);
    }

    #[test]
    fn what_kubelet_had_given_something_to_and_has_no_more_is_forgotten() {
        let now = Instant::now();
        let told = Told::new(now, vec![pod("there", false)]);
        let before = now.checked_sub(Duration::from_secs(1));
        assert!(!told.has_forgotten("there", before));
        assert!(told.has_forgotten("other", before) && told.has_forgotten("other", None));
        assert!(!told.has_forgotten("other", Some(now)), "it may have come after the answer");
        assert!(told.is_fresh(now) && !told.is_fresh(now + LASTS));
    }
}
