//! Logs why no node takes a pod, a line for each kind of refusal, once while the kinds stay the same: kube-scheduler asks
//! about a pod that waits several times a second. Remembers for how long a holder has been unknown to a pod, too. Used by filter.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::reached;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::index::{Indeterminate, NodeRefusal, RefusalKind};

/// This many pods are remembered before those that no longer wait are forgotten.
const FEW: usize = 64;

/// What was logged last of each pod that no node took.
#[derive(Debug)]
pub(super) struct RefusalLog {
    logged: Mutex<Logged>,
}

#[derive(Debug)]
struct Logged {
    /// By the pod's UID.
    by_pod: BTreeMap<String, Known>,
    /// The size at which pods that no longer wait are forgotten.
    prune_at: usize,
}

/// What is remembered of one pod.
#[derive(Debug, Default)]
struct Known {
    /// The fingerprint of the last refusal; none before it was logged.
    refused: Option<u64>,
    /// The same of what was not known. It comes and goes, as between two watches, and the refusal is no news after it.
    not_known: Option<u64>,
    /// Since when it has been for an unknown holder that no node takes the pod.
    unknown_since: Option<Instant>,
}

/// Why the nodes of one call refuse a pod: the first refusal of each kind, and how many nodes gave one of that kind.
#[derive(Debug, Default)]
pub(super) struct Reasons {
    kinds: Vec<Reason>,
}

#[derive(Debug)]
struct Reason {
    kind: RefusalKind,
    /// What metrics call it.
    name: &'static str,
    text: String,
    nodes: usize,
}

impl Reasons {
    /// Adds one node's refusal and its text.
    pub(super) fn add(&mut self, refusal: &NodeRefusal, text: &str) {
        let kind = refusal.kind();
        match self.kinds.iter_mut().find(|known| known.kind == kind) {
            Some(known) => known.nodes += 1,
            None => self.kinds.push(Reason { kind, name: refusal.name(), text: text.to_owned(), nodes: 1 }),
        }
    }

    /// What metrics call them, each kind once.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.kinds.iter().map(|reason| reason.name)
    }

    /// The same for the same kinds in any order, whatever is free now.
    fn fingerprint(&self) -> u64 {
        self.kinds.iter().fold(0, |sum: u64, reason| sum.wrapping_add(hash(&reason.kind)))
    }
}

impl RefusalLog {
    pub(super) fn new() -> Self {
        Self { logged: Mutex::new(Logged { by_pod: BTreeMap::new(), prune_at: FEW }) }
    }

    /// No node takes the pod. `still_waits` says of a UID whether its pod waits. Whether that is news.
    pub(super) fn refused(&self, uid: &str, reasons: &Reasons, still_waits: impl Fn(&str) -> bool) -> bool {
        let is_new = self.is_new(uid, reasons, still_waits);
        for Reason { text: reason, nodes, .. } in &reasons.kinds {
            if is_new {
                info!(nodes, reason, "no node takes the pod");
            } else {
                debug!(nodes, reason, "no node takes the pod");
            }
        }
        is_new
    }

    /// It is not known whether a node takes the pod.
    pub(super) fn indeterminate(
        &self,
        uid: &str,
        reason: &Indeterminate,
        still_waits: impl Fn(&str) -> bool,
    ) {
        let fingerprint = hash(&std::mem::discriminant(reason));
        let not_known = |known: &mut Known| known.not_known.replace(fingerprint);
        if self.with(uid, still_waits, not_known) != Some(fingerprint) {
            info!(reason = reason.to_string(), "it is not known whether a node takes the pod");
        } else {
            debug!(reason = reason.to_string(), "it is not known whether a node takes the pod");
        }
    }

    /// For how long it has been for an unknown holder that no node takes the pod.
    pub(super) fn unknown_for(&self, uid: &str, still_waits: impl Fn(&str) -> bool) -> Duration {
        self.with(uid, still_waits, |known| known.unknown_since.get_or_insert_with(Instant::now).elapsed())
    }

    /// It is known of every node whether it takes the pod.
    pub(super) fn is_known(&self, uid: &str) {
        if let Some(known) = self.lock().by_pod.get_mut(uid) {
            known.unknown_since = None;
        }
    }

    /// A node takes the pod: its next refusal is news.
    pub(super) fn fits(&self, uid: &str) {
        self.lock().by_pod.remove(uid);
    }

    /// How many pods are remembered.
    pub(super) fn len(&self) -> usize {
        self.lock().by_pod.len()
    }

    /// Whether these were not the last reasons for the pod.
    fn is_new(&self, uid: &str, reasons: &Reasons, still_waits: impl Fn(&str) -> bool) -> bool {
        let fingerprint = reasons.fingerprint();
        self.with(uid, still_waits, |known| known.refused.replace(fingerprint)) != Some(fingerprint)
    }

    fn with<R>(
        &self,
        uid: &str,
        still_waits: impl Fn(&str) -> bool,
        change: impl FnOnce(&mut Known) -> R,
    ) -> R {
        let mut logged = self.lock();
        if let Some(known) = logged.by_pod.get_mut(uid) {
            return change(known);
        }
        if logged.by_pod.len() >= logged.prune_at {
            reached("extender: refusals forgotten");
            logged.by_pod.retain(|uid, _| still_waits(uid));
            logged.prune_at = FEW.max(logged.by_pod.len() * 2);
        }
        change(logged.by_pod.entry(uid.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Logged> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(value: &impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use neuron_core::names::Resource;
    use neuron_core::placement::Refusal;

    use super::*;

    fn reasons(refusals: &[NodeRefusal]) -> Reasons {
        let mut reasons = Reasons::default();
        for refusal in refusals {
            reasons.add(refusal, &refusal.to_string());
        }
        reasons
    }

    fn too_many(containers: usize) -> NodeRefusal {
        NodeRefusal::Placement(Refusal::TooManyContainers { containers })
    }

    fn unknown_holder() -> NodeRefusal {
        NodeRefusal::UnknownHolder { pods: "default/one".to_owned() }
    }

    #[test]
    fn a_reason_is_new_when_its_kinds_change_and_not_when_its_numbers_do() {
        let log = RefusalLog::new();
        let is_new = |refusals: &[NodeRefusal]| log.is_new("u", &reasons(refusals), |_| true);
        assert!(is_new(&[too_many(1), unknown_holder()]));
        assert!(!is_new(&[unknown_holder(), too_many(2), too_many(3)]));
        assert!(is_new(&[too_many(2)]));
        assert!(is_new(&[NodeRefusal::UnknownNode]));
        assert!(is_new(&[too_many(2)]));
        log.indeterminate("u", &Indeterminate::BetweenWatches, |_| true);
        assert!(!is_new(&[too_many(2)]), "that comes and goes once a minute");
        log.fits("u");
        assert!(is_new(&[too_many(2)]));
        assert!(log.is_new("v", &reasons(&[too_many(2)]), |_| true), "another pod");
    }

    #[test]
    fn kinds_of_placement_are_told_apart() {
        let unsupported = Refusal::UnsupportedCount {
            instance_type: "trn1.32xlarge".to_owned(),
            resource: Resource::Device,
            requested: 7,
        };
        assert_ne!(NodeRefusal::Placement(unsupported).kind(), too_many(1).kind());
        assert_eq!(too_many(1).kind(), too_many(2).kind());
    }

    #[test]
    fn the_first_of_each_kind_is_kept_and_its_nodes_are_counted() {
        let reasons = reasons(&[too_many(200), unknown_holder(), too_many(201)]);
        let kept: Vec<_> = reasons.kinds.into_iter().map(|reason| (reason.text, reason.nodes)).collect();
        assert_eq!(kept, [(too_many(200).to_string(), 2), (unknown_holder().to_string(), 1)]);
    }

    #[test]
    fn pods_that_are_gone_are_forgotten() {
        let log = RefusalLog::new();
        for number in 0..10_000 {
            assert!(log.is_new(&format!("u{number}"), &Reasons::default(), |uid| uid == "u7"));
        }
        assert!(log.lock().by_pod.len() <= FEW + 1, "{}", log.lock().by_pod.len());
        assert!(!log.is_new("u7", &Reasons::default(), |_| true), "a pod that waits is remembered");
    }
}
