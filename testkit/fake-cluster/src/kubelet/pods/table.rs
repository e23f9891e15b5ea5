//! The pods that kubelet knows, and which of them may still use something. Written by `watch` and `worker`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use tokio_util::sync::CancellationToken;

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
    /// Whether it was rejected, or its containers have all ended for good.
    has_ended: bool,
    /// Cancelled to end the pod.
    stop: CancellationToken,
}

impl PodTable {
    pub(crate) fn new(running_at_start: BTreeSet<(String, String)>) -> Self {
        Self { running_at_start, ..Self::default() }
    }

    /// UIDs of [`Self::active`].
    pub(crate) fn active_uids(&self) -> BTreeSet<String> {
        self.known.iter().filter(|known| !known.has_ended).map(|known| known.uid.clone()).collect()
    }

    /// Pods that may still use something: those that have not ended.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.known.iter().filter(|known| !known.has_ended).map(|known| &known.pod)
    }

    /// Every pod, those that have ended and are still in the API included.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.known.iter().map(|known| &known.pod)
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

    /// Ends a pod, if it is known.
    pub(super) fn stop(&self, pod_uid: &str) {
        self.known.iter().filter(|known| known.uid == pod_uid).for_each(|known| known.stop.cancel());
    }

    /// Ends every pod that a complete list does not have.
    pub(super) fn stop_unlisted(&self, listed: &BTreeSet<String>) {
        let unlisted = self.known.iter().filter(|known| !listed.contains(&known.uid));
        unlisted.for_each(|known| known.stop.cancel());
    }

    /// Adds a pod. The token is cancelled when it is to end.
    pub(super) fn insert(&mut self, uid: &str, pod: &Arc<Pod>) -> CancellationToken {
        let stop = CancellationToken::new();
        let known = Known { uid: uid.to_owned(), pod: Arc::clone(pod), has_ended: false, stop: stop.clone() };
        self.known.push(known);
        stop
    }
}
