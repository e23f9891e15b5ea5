//! What is known of this node's pods. Answers to live reads and patches may come after the watch has shown more, so an older
//! version never replaces a newer one, and no pod comes back. Kept by [`super::Pods`].

use std::collections::{BTreeMap, VecDeque};

use crate::ledger::slot::NodePod;

/// Number of gone pods whose UIDs are remembered: more than can go while one answer is under way.
const MOST_GONE: usize = 1024;

#[derive(Default)]
pub(super) struct State {
    /// Pods by UID; none until they were read once.
    pub(super) known: Option<BTreeMap<String, NodePod>>,
    /// Pods that a relist has shown so far, by UID.
    pub(super) starting: Option<BTreeMap<String, NodePod>>,
    /// Pods that have ended or gone since the last look.
    pub(super) ended: Vec<NodePod>,
    /// UIDs of pods that have gone, the latest last. A UID never comes back.
    gone: VecDeque<String>,
}

/// How many pods are kept for which reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodCounts {
    pub(crate) known: usize,
    pub(crate) starting: usize,
    pub(crate) ended: usize,
    pub(crate) gone: usize,
}

impl State {
    pub(super) fn counts(&self) -> PodCounts {
        PodCounts {
            known: self.known.as_ref().map_or(0, BTreeMap::len),
            starting: self.starting.as_ref().map_or(0, BTreeMap::len),
            ended: self.ended.len(),
            gone: self.gone.len(),
        }
    }

    /// Keeps a pod unless it is gone or a newer version of it is known.
    pub(super) fn keep(&mut self, pod: NodePod) {
        let Some(known) = &mut self.known else { return };
        let before = known.get(&pod.pod.uid);
        if before.is_some_and(|before| before.version > pod.version) || self.gone.contains(&pod.pod.uid) {
            return;
        }
        if pod.pod.terminal && before.is_none_or(|before| !before.pod.terminal) {
            self.ended.push(pod.clone());
        }
        known.insert(pod.pod.uid.clone(), pod);
    }

    /// Drops a pod that was deleted.
    pub(super) fn forget(&mut self, uid: &str) {
        let gone = self.known.as_mut().and_then(|known| known.remove(uid));
        self.ended.extend(gone.filter(|pod| !pod.pod.terminal));
        self.remember(uid.to_owned());
    }

    fn remember(&mut self, uid: String) {
        if self.gone.len() == MOST_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back(uid);
    }

    /// Takes over a whole list of `version`. Pods that are neither in it nor newer are gone.
    pub(super) fn replace(&mut self, now: BTreeMap<String, NodePod>, version: u64) {
        let mut known = self.known.take().unwrap_or_default();
        for (uid, pod) in known.extract_if(.., |uid, pod| !now.contains_key(uid) && pod.version <= version) {
            self.remember(uid);
            self.ended.extend((!pod.pod.terminal).then_some(pod));
        }
        self.known = Some(known);
        now.into_values().for_each(|pod| self.keep(pod));
    }
}

#[cfg(test)]
mod tests {
    use neuron_core::pod::{BoundPod, PodSpec};

    use super::*;

    fn pod(uid: &str, version: u64) -> NodePod {
        let spec = PodSpec::default();
        let (namespace, name) = ("d".to_owned(), "p".to_owned());
        let pod = BoundPod::new(namespace, name, uid.to_owned(), BTreeMap::new(), &spec, None);
        NodePod { pod, version, admitted: false }
    }

    fn list(pods: &[NodePod]) -> BTreeMap<String, NodePod> {
        pods.iter().map(|pod| (pod.pod.uid.clone(), pod.clone())).collect()
    }

    #[test]
    fn an_answer_that_comes_after_the_pod_has_gone_does_not_bring_it_back() {
        let mut state = State::default();
        state.replace(list(&[pod("u", 90), pod("v", 91)]), 95);
        state.forget("u");
        assert_eq!(state.ended.len(), 1);
        // What was read, and what a patch gave, before it went.
        state.replace(list(&[pod("u", 90), pod("v", 91)]), 100);
        state.keep(pod("u", 99));
        assert_eq!(state.known.unwrap().into_keys().collect::<Vec<_>>(), ["v"]);
        assert_eq!(state.ended.len(), 1, "it has gone once");
    }

    #[test]
    fn an_answer_that_is_older_than_the_list_in_which_the_pod_was_missing_does_not_bring_it_back() {
        let mut state = State::default();
        state.replace(list(&[pod("u", 80)]), 85);
        state.replace(BTreeMap::new(), u64::MAX);
        state.replace(list(&[pod("u", 80)]), 90);
        assert_eq!((state.known.unwrap().len(), state.ended.len()), (0, 1));
    }

    #[test]
    fn a_list_that_is_older_than_a_pod_takes_nothing_away() {
        let mut state = State::default();
        state.replace(BTreeMap::new(), 10);
        state.keep(pod("u", 20));
        state.replace(BTreeMap::new(), 15);
        assert_eq!(state.known.as_ref().unwrap().len(), 1);
        state.replace(BTreeMap::new(), 25);
        assert_eq!((state.known.unwrap().len(), state.ended.len()), (0, 1));
    }
}
