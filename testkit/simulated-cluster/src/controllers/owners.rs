//! Jobs and StatefulSets, and which pods are theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fake_cluster::api::text;
use serde_json::Value;

use super::Controllers;
use crate::names::NAMESPACE;

/// The label with an owner's name.
pub(super) const LABEL: &str = "simulated-owner";

/// All owners, by name.
#[derive(Default)]
pub(super) struct Owners {
    pub(super) jobs: BTreeMap<String, Job>,
    pub(super) stateful_sets: BTreeMap<String, StatefulSet>,
    /// Owners that are gone and whose pods are not yet.
    pub(super) deleted: Vec<String>,
}

/// A Job.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) pod: Value,
    pub(super) parallelism: u32,
    pub(super) completions: u32,
    pub(super) succeeded: u32,
    pub(super) failed: u32,
    /// Pods made so far.
    pub(super) made: u32,
    /// UIDs of pods that have ended and are counted: what was deleted may still be there.
    pub(super) counted: BTreeSet<String>,
}

/// A StatefulSet.
#[derive(Clone)]
pub(super) struct StatefulSet {
    pub(super) pod: Value,
    pub(super) replicas: u32,
}

impl Owners {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.stateful_sets.is_empty() && self.deleted.is_empty()
    }
}

impl Controllers {
    /// There is a Job.
    pub(crate) fn job(&self, name: &str, pod: Value, parallelism: u32, completions: u32) {
        let job =
            Job { pod, parallelism, completions, succeeded: 0, failed: 0, made: 0, counted: BTreeSet::new() };
        self.owners().jobs.insert(name.to_owned(), job);
        self.watcher.changed.notify_waiters();
    }

    /// There is a StatefulSet, or another number of its pods.
    pub(crate) fn stateful_set(&self, name: &str, pod: Value, replicas: u32) {
        self.owners().stateful_sets.insert(name.to_owned(), StatefulSet { pod, replicas });
        self.watcher.changed.notify_waiters();
    }

    /// The owner goes, and its pods with it.
    pub(crate) fn delete_owner(&self, name: &str) {
        let mut owners = self.owners();
        if owners.jobs.remove(name).is_some() | owners.stateful_sets.remove(name).is_some() {
            owners.deleted.push(name.to_owned());
        }
    }

    /// The pods of an owner, by name, which begins with the owner's.
    pub(super) fn pods_of(&self, owner: &str) -> BTreeMap<String, Arc<Value>> {
        let state = self.watcher.state();
        let first = (NAMESPACE.to_owned(), format!("{owner}-"));
        let named = state.mirror.pods.range(&first..);
        let named = named
            .take_while(|((namespace, name), _)| (namespace, name.starts_with(&first.1)) == (&first.0, true));
        let own = named.filter(|(_, pod)| owner_of(pod) == Some(owner));
        own.map(|((_, name), pod)| (name.clone(), Arc::clone(pod))).collect()
    }
}

/// The name of the pod's owner.
pub(super) fn owner_of(pod: &Value) -> Option<&str> {
    pod.pointer("/metadata/labels")?.get(LABEL)?.as_str()
}

/// Whether the pod's phase is a last one.
pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Whether the pod is being deleted.
pub(super) fn is_deleting(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}
