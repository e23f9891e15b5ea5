//! What is known of this node's pods. Answers to live reads and patches may come after the watch has shown more, so an older
//! version never replaces a newer one, and no pod comes back. Kept by [`super::Pods`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;

use crate::ledger::Life;
use crate::ledger::slot::NodePod;
use crate::ledger::told::Told;

/// Number of gone pods whose UIDs are remembered: more than can go while one answer is under way.
const MOST_GONE: usize = 1024;

#[derive(Default)]
pub(super) struct State {
    /// Pods by UID; none until they were read once.
    pub(super) known: Option<BTreeMap<String, Arc<NodePod>>>,
    /// Another number after each change of what is known.
    pub(super) version: u64,
    /// Pods that a relist has shown so far, by UID.
    pub(super) starting: Option<BTreeMap<String, Arc<NodePod>>>,
    /// When the last live read began that was answered.
    pub(super) read_live: Option<Instant>,
    /// What kubelet has told of its own pods.
    told: Option<Told>,
    /// UIDs of pods that have gone, the latest last. A UID never comes back.
    gone: VecDeque<String>,
    /// Whether a live read was answered amid a relist. The relist may be newer and lack pods that the read has shown, whose ends
    /// no watch will tell: only another live read does.
    pub(super) is_unsure: bool,
    /// Pods with a record of their devices that were seen to fail admission.
    pub(super) failed_admissions: u64,
}

/// How many pods are kept for which reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodCounts {
    pub(crate) known: usize,
    pub(crate) starting: usize,
    pub(crate) gone: usize,
}

impl State {
    pub(super) fn counts(&self) -> PodCounts {
        PodCounts {
            known: self.known.as_ref().map_or(0, BTreeMap::len),
            starting: self.starting.as_ref().map_or(0, BTreeMap::len),
            gone: self.gone.len(),
        }
    }

    /// The pods that have not ended: as the API server shows them, and as kubelet has just told of its own; none until there was either.
    pub(super) fn living(&self) -> Option<Vec<Arc<NodePod>>> {
        let (known, lives) = (self.known.as_ref(), |pod: &&Arc<NodePod>| !pod.pod.terminal);
        let Some(told) = self.told() else { return Some(known?.values().filter(lives).cloned().collect()) };
        let mut pods = told.beside(known, |uid| self.gone.iter().any(|gone| gone == uid));
        pods.retain(|pod| !pod.pod.terminal);
        Some(pods)
    }

    /// What kubelet has told, while that counts.
    pub(super) fn told(&self) -> Option<&Told> {
        self.told.as_ref().filter(|told| told.is_fresh(Instant::now()))
    }

    /// Takes over what kubelet has told; none where it did not tell, or another one has started.
    pub(super) fn set_told(&mut self, told: Option<Told>) {
        self.told = told;
    }

    /// Keeps a pod unless it is gone or a newer version of it is known.
    pub(super) fn keep(&mut self, pod: Arc<NodePod>) {
        let Some(known) = &mut self.known else { return };
        let uid = pod.pod.uid.to_string();
        let before = known.get(&uid);
        if before.is_some_and(|before| before.version > pod.version) || self.gone.contains(&uid) {
            return;
        }
        let has_failed = pod.failed_admission && !before.is_some_and(|before| before.failed_admission);
        if has_failed && matches!(pod.pod.record, Ok(Some(_))) {
            self.failed_admissions += 1;
        }
        known.insert(uid, pod);
        self.version += 1;
    }

    /// What is known of a pod, by its UID as kubelet has it. A mirror that is gone says nothing of its static pod, which may run on
    /// and gets another.
    pub(super) fn life(&self, kubelet_uid: &str) -> Life {
        let shown = self.shown_life(kubelet_uid);
        self.told().map_or(shown, |told| told.life(kubelet_uid, shown))
    }

    fn shown_life(&self, kubelet_uid: &str) -> Life {
        // Only mirrors have another UID at the API server, and none of theirs is a UID of its form.
        let own = self.known.as_ref().and_then(|known| known.get(kubelet_uid));
        if let Some(pod) = own.filter(|pod| pod.kubelet_uid == kubelet_uid) {
            return if pod.pod.terminal { Life::Ended } else { Life::Lives };
        }
        let known = self.known.iter().flat_map(BTreeMap::values);
        let mut own = known.filter(|pod| pod.kubelet_uid == kubelet_uid).peekable();
        if own.peek().is_some() {
            return if own.all(|pod| pod.pod.terminal) { Life::Ended } else { Life::Lives };
        }
        if self.gone.iter().any(|uid| uid == kubelet_uid) { Life::Gone } else { Life::Unseen }
    }

    /// Drops a pod that was deleted.
    pub(super) fn forget(&mut self, uid: &str) {
        if let Some(known) = &mut self.known {
            known.remove(uid);
        }
        self.remember(uid.to_owned());
        self.version += 1;
    }

    fn remember(&mut self, uid: String) {
        if self.gone.len() == MOST_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back(uid);
    }

    /// Takes over what a live read of `version`, begun then, has shown, for a relist under way too: that may be older.
    pub(super) fn read(&mut self, pods: BTreeMap<String, Arc<NodePod>>, version: u64, began: Instant) {
        self.read_live = self.read_live.max(Some(began));
        self.replace(pods, version);
        self.is_unsure = self.starting.is_some();
        let (Some(known), Some(starting)) = (&self.known, &mut self.starting) else { return };
        known.values().for_each(|pod| keep_newer(starting, Arc::clone(pod)));
    }

    /// Takes over the pods of a relist that has ended.
    pub(super) fn relisted(&mut self) {
        if let Some(listed) = self.starting.take() {
            self.replace(listed, u64::MAX);
        }
    }

    /// Takes over a whole list of `version`. Pods that are neither in it nor newer are gone.
    pub(super) fn replace(&mut self, now: BTreeMap<String, Arc<NodePod>>, version: u64) {
        let mut known = self.known.take().unwrap_or_default();
        for (uid, _) in known.extract_if(.., |uid, pod| !now.contains_key(uid) && pod.version <= version) {
            self.remember(uid);
        }
        self.known = Some(known);
        self.version += 1;
        now.into_values().for_each(|pod| self.keep(pod));
    }
}

/// Keeps a pod unless a newer version of it is there.
pub(super) fn keep_newer(pods: &mut BTreeMap<String, Arc<NodePod>>, pod: Arc<NodePod>) {
    if pods.get(&*pod.pod.uid).is_none_or(|known| known.version <= pod.version) {
        pods.insert(pod.pod.uid.to_string(), pod);
    }
}

#[cfg(test)]
mod tests {
    use neuron_core::pod::{BoundPod, PodSpec};

    use super::*;

    fn pod(uid: &str, version: u64) -> Arc<NodePod> {
        let spec = PodSpec::default();
        let pod = BoundPod::new("d", "p", uid, BTreeMap::new(), &spec, None);
        Arc::new(NodePod::of(pod, version))
    }

    fn list(pods: &[Arc<NodePod>]) -> BTreeMap<String, Arc<NodePod>> {
        pods.iter().map(|pod| (pod.pod.uid.to_string(), pod.clone())).collect()
    }

    #[test]
    fn an_answer_that_comes_after_the_pod_has_gone_does_not_bring_it_back() {
        let mut state = State::default();
        state.replace(list(&[pod("u", 90), pod("v", 91)]), 95);
        state.forget("u");
        // What was read, and what a patch gave, before it went.
        state.replace(list(&[pod("u", 90), pod("v", 91)]), 100);
        state.keep(pod("u", 99));
        assert_eq!([state.life("u"), state.life("v")], [Life::Gone, Life::Lives]);
        assert_eq!(state.known.unwrap().into_keys().collect::<Vec<_>>(), ["v"]);
    }

    #[test]
    fn an_answer_that_is_older_than_the_list_in_which_the_pod_was_missing_does_not_bring_it_back() {
        let mut state = State::default();
        state.replace(list(&[pod("u", 80)]), 85);
        state.replace(BTreeMap::new(), u64::MAX);
        state.replace(list(&[pod("u", 80)]), 90);
        assert_eq!((state.life("u"), state.known.unwrap().len()), (Life::Gone, 0));
    }

    #[test]
    fn a_live_read_amid_a_relist_is_repeated_since_either_may_be_older() {
        let mut state = State::default();
        state.replace(list(&[pod("ended", 80)]), 85);
        state.starting = Some(BTreeMap::new());
        // "ended" goes after the read and before the relist is answered; "bound" comes after the relist was answered.
        state.read(list(&[pod("ended", 80), pod("bound", 95)]), 96, Instant::now());
        state.relisted();
        assert!(state.known.as_ref().unwrap().contains_key("bound"), "the relist may be older");
        assert!(state.is_unsure);
        state.read(list(&[pod("bound", 95)]), 100, Instant::now());
        assert_eq!(state.known.unwrap().into_keys().collect::<Vec<_>>(), ["bound"]);
        assert!(!state.is_unsure);
    }

    #[test]
    fn a_list_that_is_older_than_a_pod_takes_nothing_away() {
        let mut state = State::default();
        state.replace(BTreeMap::new(), 10);
        state.keep(pod("u", 20));
        state.replace(BTreeMap::new(), 15);
        assert_eq!(state.known.as_ref().unwrap().len(), 1);
        state.replace(BTreeMap::new(), 25);
        assert_eq!((state.life("u"), state.known.unwrap().len()), (Life::Gone, 0));
    }
}
