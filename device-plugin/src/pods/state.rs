//! What is known of this node's pods. Answers to live reads and patches may come after the watch has shown more, so an older
//! version never replaces a newer one, and no pod comes back. Kept by [`super::Pods`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use runtime::reached;
use tokio::time::Instant;

use crate::ledger::Life;
use crate::ledger::slot::NodePod;

/// Number of gone pods whose UIDs are remembered: more than can go while one answer is under way.
const MOST_GONE: usize = 1024;

#[derive(Default)]
pub(super) struct State {
    /// Pods by UID; none until they were read once.
    pub(super) known: Option<BTreeMap<String, NodePod>>,
    /// Pods that a relist has shown so far, by UID.
    pub(super) starting: Option<BTreeMap<String, NodePod>>,
    /// When the last live read began that was answered.
    pub(super) read_live: Option<Instant>,
    /// UIDs of pods that have gone, the latest last. A UID never comes back.
    gone: VecDeque<String>,
    /// UIDs of the pods that kubelet had when it told them last, and when its answer came.
    of_kubelet: BTreeSet<String>,
    told_at: Option<Instant>,
    /// UIDs of pods that only kubelet has told of. The watch shows a new one soon; of one that is gone already it never says a word.
    only_of_kubelet: BTreeSet<String>,
    /// Whether a live read was answered amid a relist. The relist may be newer and lack pods that the read has shown, whose ends
    /// no watch will tell: only another live read does.
    pub(super) is_unsure: bool,
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

    /// Keeps a pod unless it is gone or a newer version of it is known.
    pub(super) fn keep(&mut self, mut pod: NodePod) {
        let Some(known) = &mut self.known else { return };
        if self.gone.contains(&pod.pod.uid) {
            return;
        }
        if let Some(before) = known.get_mut(&pod.pod.uid) {
            // A last phase is the last, and kubelet knows of it before any version says so.
            let is_terminal = before.pod.terminal || pod.pod.terminal;
            (before.pod.terminal, pod.pod.terminal) = (is_terminal, is_terminal);
            if before.version > pod.version {
                return;
            }
        }
        known.insert(pod.pod.uid.clone(), pod);
    }

    /// What is known of a pod, by its UID as kubelet has it. A mirror that is gone says nothing of its static pod, which may run on
    /// and gets another.
    pub(super) fn life(&self, kubelet_uid: &str) -> Life {
        let known = self.known.iter().flat_map(BTreeMap::values);
        let mut own = known.filter(|pod| pod.kubelet_uid == kubelet_uid).peekable();
        if own.peek().is_some() {
            return if own.all(|pod| pod.pod.terminal) { Life::Ended } else { Life::Lives };
        }
        if self.gone.iter().any(|uid| uid == kubelet_uid) { Life::Gone } else { Life::Unseen }
    }

    /// Keeps a pod as the API server shows it.
    pub(super) fn shown(&mut self, pod: NodePod) {
        self.only_of_kubelet.remove(&pod.pod.uid);
        self.keep(pod);
    }

    /// Whether only kubelet has told of a pod, so that the API server is to be asked whether it is still there.
    pub(super) fn is_ahead(&self) -> bool {
        !self.only_of_kubelet.is_empty()
    }

    /// Drops a pod that was deleted.
    pub(super) fn forget(&mut self, uid: &str) {
        self.only_of_kubelet.remove(uid);
        if let Some(known) = &mut self.known {
            known.remove(uid);
        }
        self.remember(uid.to_owned());
    }

    fn remember(&mut self, uid: String) {
        if self.gone.len() == MOST_GONE {
            self.gone.pop_front();
        }
        self.gone.push_back(uid);
    }

    /// Takes over what a live read of `version`, begun then, has shown, for a relist under way too: that may be older.
    pub(super) fn read(&mut self, pods: BTreeMap<String, NodePod>, version: u64, began: Instant) {
        self.read_live = self.read_live.max(Some(began));
        self.replace(pods, version);
        self.is_unsure = self.starting.is_some();
        let (Some(known), Some(starting)) = (&self.known, &mut self.starting) else { return };
        known.values().for_each(|pod| keep_newer(starting, pod.clone()));
    }

    /// Takes over the pods that kubelet has; it was asked at `began`, and its answer came at `told_at`. One that it had before and has
    /// no more is gone: it was told to forget it. Of others it says nothing: it may not have heard of them yet.
    pub(super) fn told_by_kubelet(
        &mut self,
        pods: BTreeMap<String, NodePod>,
        began: Instant,
        told_at: Instant,
    ) {
        self.read_live = self.read_live.max(Some(began));
        self.known.get_or_insert_default();
        let now: BTreeSet<String> = pods.keys().cloned().collect();
        let mut before = std::mem::take(&mut self.of_kubelet);
        // Of two answers that were asked for side by side either may be the older one, and lack a new pod.
        if self.told_at.is_none_or(|last| began > last) {
            for uid in before.difference(&now) {
                reached("plugin: pod forgotten by kubelet");
                self.forget(uid);
            }
            before.clear();
        }
        self.told_at = self.told_at.max(Some(told_at));
        before.extend(now);
        self.of_kubelet = before;
        let is_known = |uid: &String| self.known.iter().any(|known| known.contains_key(uid));
        let news = self.of_kubelet.iter().filter(|uid| !is_known(uid) && !self.gone.contains(uid));
        self.only_of_kubelet.extend(news.cloned());
        if let Some(starting) = &mut self.starting {
            // A relist under way may be older, and lack some of them.
            pods.values().for_each(|pod| keep_newer(starting, pod.clone()));
            self.is_unsure = true;
        }
        pods.into_values().for_each(|pod| self.keep(pod));
    }

    /// Takes over the pods of a relist that has ended.
    pub(super) fn relisted(&mut self) {
        if let Some(listed) = self.starting.take() {
            self.replace(listed, u64::MAX);
        }
    }

    /// Takes over a whole list of `version`. Pods that are neither in it nor newer are gone.
    pub(super) fn replace(&mut self, now: BTreeMap<String, NodePod>, version: u64) {
        let mut known = self.known.take().unwrap_or_default();
        for (uid, _) in known.extract_if(.., |uid, pod| !now.contains_key(uid) && pod.version <= version) {
            self.remember(uid);
        }
        self.only_of_kubelet.retain(|uid| known.contains_key(uid));
        self.known = Some(known);
        now.into_values().for_each(|pod| self.shown(pod));
    }
}

/// Keeps a pod unless a newer version of it is there.
pub(super) fn keep_newer(pods: &mut BTreeMap<String, NodePod>, pod: NodePod) {
    if pods.get(&pod.pod.uid).is_none_or(|known| known.version <= pod.version) {
        pods.insert(pod.pod.uid.clone(), pod);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use neuron_core::pod::{BoundPod, PodSpec};

    use super::*;

    fn pod(uid: &str, version: u64) -> NodePod {
        let spec = PodSpec::default();
        let (namespace, name) = ("d".to_owned(), "p".to_owned());
        let pod = BoundPod::new(namespace, name, uid.to_owned(), BTreeMap::new(), &spec, None);
        NodePod { pod, version, kubelet_uid: uid.to_owned(), started: BTreeSet::new() }
    }

    fn list(pods: &[NodePod]) -> BTreeMap<String, NodePod> {
        pods.iter().map(|pod| (pod.pod.uid.clone(), pod.clone())).collect()
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
    fn what_kubelet_had_and_has_no_more_is_gone_and_what_it_ended_stays_so() {
        let mut state = State::default();
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        let ended = |version| {
            let mut pod = pod("e", version);
            pod.pod.terminal = true;
            pod
        };
        state.told_by_kubelet(list(&[pod("u", 90), pod("e", 91)]), now, later(1));
        assert_eq!([state.life("u"), state.life("other")], [Life::Lives, Life::Unseen]);
        // The API server has a newer version of "e", whose end it has not heard of, and a pod that kubelet has not heard of.
        state.keep(pod("e", 95));
        state.keep(pod("new", 96));
        // Asked for side by side with the first: which of both is older is not known.
        state.told_by_kubelet(list(&[ended(91)]), later(1), later(2));
        assert_eq!(state.life("u"), Life::Lives);
        state.told_by_kubelet(list(&[ended(91)]), later(3), later(4));
        assert_eq!(
            [state.life("u"), state.life("e"), state.life("new")],
            [Life::Gone, Life::Ended, Life::Lives]
        );
        state.keep(pod("e", 97));
        state.replace(list(&[pod("u", 90), pod("e", 97), pod("new", 96)]), 98);
        assert_eq!([state.life("u"), state.life("e")], [Life::Gone, Life::Ended], "neither comes back");
    }

    #[test]
    fn the_api_server_is_asked_for_what_only_kubelet_has_told_of() {
        let mut state = State::default();
        state.replace(BTreeMap::new(), 80);
        let told = [pod("gone", 70), pod("new", 90), pod("newer", 95)];
        let now = Instant::now();
        state.told_by_kubelet(list(&told), now, now);
        state.told_by_kubelet(list(&told), now + Duration::from_secs(1), now + Duration::from_secs(1));
        state.shown(pod("new", 90));
        assert!(state.is_ahead());
        // Read before "newer" was bound.
        state.read(list(&[pod("new", 90)]), 92, Instant::now());
        assert_eq!([state.life("gone"), state.life("newer")], [Life::Gone, Life::Lives]);
        assert!(state.is_ahead());
        state.shown(pod("newer", 95));
        assert!(!state.is_ahead());
    }

    #[test]
    fn a_relist_that_is_older_takes_nothing_of_kubelets_away() {
        let mut state = State::default();
        state.replace(BTreeMap::new(), 10);
        state.starting = Some(BTreeMap::new());
        state.told_by_kubelet(list(&[pod("u", 20)]), Instant::now(), Instant::now());
        state.relisted();
        assert_eq!(state.life("u"), Life::Lives);
        assert!(state.is_unsure);
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
