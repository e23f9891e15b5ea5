//! The pods that kubelet knows, and which of them may still use something. Written by `watch` and `worker`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use runtime::reached;
use tokio::sync::watch;

use super::grace;

/// How a pod is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    /// How long its containers may take.
    pub(crate) grace: Duration,
    /// Whether its object is gone from the API server.
    pub(crate) is_gone: bool,
}

/// What the API server shows of a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// The version of the object.
    version: u64,
    phase: Option<String>,
}

impl Shown {
    fn of(pod: &Pod) -> Self {
        let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
        Self { version: version_of(pod), phase }
    }

    /// Whether something else was written after `version` than this phase.
    pub(super) fn is_other(&self, version: u64, phase: &str) -> bool {
        self.version > version && self.phase.as_deref() != Some(phase)
    }
}

/// The version of a pod's object.
pub(super) fn version_of(pod: &Pod) -> u64 {
    let version = pod.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// What the worker of a pod follows.
pub(super) struct Followed {
    /// How the pod is to end, once it is.
    pub(super) stop: watch::Receiver<Option<Stop>>,
    /// What the API server shows of it.
    pub(super) shown: watch::Receiver<Shown>,
}

/// The pods that kubelet knows, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct PodTable {
    /// Whether the first list of pods has been handled (kubelet's `sourcesReady`).
    pub(crate) listed: bool,
    known: Vec<Known>,
    /// The containers that ran when this kubelet started, by pod UID and container name.
    running_at_start: BTreeSet<(String, String)>,
}

#[derive(Debug)]
struct Known {
    uid: String,
    pod: Arc<Pod>,
    /// Whether it was rejected, its containers have all ended for good, or its object is gone.
    has_ended: bool,
    /// Whether its object is gone.
    is_gone: bool,
    /// Set once it is to end.
    stop: watch::Sender<Option<Stop>>,
    shown: watch::Sender<Shown>,
}

impl PodTable {
    pub(crate) fn new(running_at_start: BTreeSet<(String, String)>) -> Self {
        Self { running_at_start, ..Self::default() }
    }

    /// UIDs of [`Self::active`].
    pub(crate) fn active_uids(&self) -> BTreeSet<String> {
        self.known.iter().filter(|known| !known.has_ended).map(|known| known.uid.clone()).collect()
    }

    /// Pods that may still use something: those that have not ended and whose objects are there.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.known.iter().filter(|known| !known.has_ended).map(|known| &known.pod)
    }

    /// Every pod, those that have ended and are still in the API included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.known.iter().map(|known| &known.pod)
    }

    /// Every pod whose object is there, and whether it has ended.
    pub(crate) fn there(&self) -> impl Iterator<Item = (&Arc<Pod>, bool)> {
        self.known.iter().filter(|known| !known.is_gone).map(|known| (&known.pod, known.has_ended))
    }

    /// Takes over what the API server says now of a pod that is known.
    pub(super) fn update(&mut self, pod_uid: &str, pod: Pod) {
        if let Some(known) = self.known.iter_mut().find(|known| known.uid == pod_uid) {
            known.shown.send_replace(Shown::of(&pod));
            known.pod = Arc::new(pod);
        }
    }

    /// Whether the container ran when this kubelet started.
    pub(crate) fn was_running(&self, pod_uid: &str, container: &str) -> bool {
        self.running_at_start.contains(&(pod_uid.to_owned(), container.to_owned()))
    }

    /// Marks a pod that was rejected or whose containers have all ended for good.
    pub(super) fn set_ended(&mut self, pod_uid: &str) {
        if let Some(known) = self.known.iter_mut().find(|known| known.uid == pod_uid) {
            known.has_ended = true;
        }
    }

    pub(super) fn forget(&mut self, pod_uid: &str) {
        self.known.retain(|known| known.uid != pod_uid);
    }

    pub(super) fn contains(&self, pod_uid: &str) -> bool {
        self.known.iter().any(|known| known.uid == pod_uid)
    }

    /// Ends a pod, if it is known. A grace that was given before can only become shorter.
    pub(super) fn stop(&self, pod_uid: &str, grace: Duration) {
        let known = self.known.iter().filter(|known| known.uid == pod_uid);
        known.for_each(|known| {
            known.stop.send_if_modified(|stop| {
                let Stop { grace: before, is_gone } =
                    stop.unwrap_or(Stop { grace: Duration::MAX, is_gone: false });
                let shortens = grace < before;
                if shortens && stop.is_some() {
                    reached("cluster: a second deletion shortened the grace");
                }
                *stop = Some(Stop { grace: before.min(grace), is_gone });
                shortens
            });
        });
    }

    /// Ends a pod whose object is gone, if it is known: it counts no longer, although its containers still have their grace.
    pub(super) fn set_gone(&mut self, pod_uid: &str) {
        let known = self.known.iter_mut().filter(|known| known.uid == pod_uid);
        known.for_each(Known::set_gone);
    }

    /// As [`Self::set_gone`], for every pod that a complete list does not have.
    pub(super) fn set_unlisted_gone(&mut self, listed: &BTreeSet<String>) {
        let unlisted = self.known.iter_mut().filter(|known| !listed.contains(&known.uid));
        unlisted.for_each(Known::set_gone);
    }

    /// Adds a pod. Gives what its worker follows.
    pub(super) fn insert(&mut self, uid: &str, pod: &Arc<Pod>) -> Followed {
        let (stop, shown) = (watch::Sender::new(None), watch::Sender::new(Shown::of(pod)));
        let followed = Followed { stop: stop.subscribe(), shown: shown.subscribe() };
        self.known.push(Known {
            uid: uid.to_owned(),
            pod: Arc::clone(pod),
            has_ended: false,
            is_gone: false,
            stop,
            shown,
        });
        followed
    }
}

impl Known {
    fn set_gone(&mut self) {
        if !self.has_ended {
            reached("cluster: a pod was gone before its containers had ended");
        }
        (self.has_ended, self.is_gone) = (true, true);
        let own = Stop { grace: grace::of_spec(&self.pod), is_gone: true };
        self.stop.send_modify(|stop| *stop = Some(stop.map_or(own, |stop| Stop { is_gone: true, ..stop })));
    }
}
