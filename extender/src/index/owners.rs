//! Pods that wait and have one controlling owner. Asked by the explainer, which tells them the same thing once.

use std::collections::BTreeSet;

use super::{Index, ObservedPod, Owner};

/// Who is told something once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Audience {
    /// The pod of this UID.
    Pod(String),
    /// All pods with this controlling owner.
    PodsOf {
        /// Anybody may name the owner of a pod in another namespace.
        namespace: String,
        /// The owner's UID.
        uid: String,
    },
}

impl ObservedPod {
    /// Who is told why the pod waits.
    pub(crate) fn audience(&self) -> Audience {
        match self.owner.as_deref() {
            Some(Owner { uid, .. }) => {
                Audience::PodsOf { namespace: self.pod.namespace().to_owned(), uid: uid.clone() }
            }
            None => Audience::Pod(self.pod.uid.to_string()),
        }
    }
}

impl Index {
    /// The pod, if kube-scheduler found no node for it and none is freed for it.
    pub(crate) fn unschedulable(&self, uid: &str) -> Option<&ObservedPod> {
        self.pending.get(uid).filter(|pod| pod.unschedulable)
    }

    /// Whether others of the pod's owner are bound to no node either.
    pub(crate) fn is_one_of_many(&self, pod: &ObservedPod) -> bool {
        let is_beside = |other: &&ObservedPod| {
            other.owner.as_ref().map(|owner| &owner.uid) == pod.owner.as_ref().map(|owner| &owner.uid)
                && other.pod.namespace() == pod.pod.namespace()
        };
        pod.owner.is_some() && self.pending.values().filter(is_beside).nth(1).is_some()
    }

    /// Everything that can be explained is to be looked at.
    pub(crate) fn explain_all(&mut self) {
        self.unexplained.nodes.extend(self.nodes.keys().map(|name| name.to_string()));
        self.unexplained.topologies = true;
    }

    /// These are to be told again why their pods wait.
    pub(crate) fn explain_again(&mut self, audiences: &BTreeSet<Audience>) {
        let waiting = self.pending.iter().filter(|(_, pod)| pod.unschedulable);
        let again = waiting.filter(|(_, pod)| audiences.contains(&pod.audience()));
        self.unexplained.pods.extend(again.map(|(uid, _)| uid.clone()));
    }
}
