//! The node's containers, which outlive the kubelet as containerd's do: `containers.json`. Written by `worker`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One container's present or last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) started: Timestamp,
    /// When it ends or ended; `None` until it is stopped.
    pub(crate) ends: Option<Timestamp>,
    pub(crate) exit_code: i32,
    pub(crate) restarts: u32,
}

impl Run {
    pub(crate) fn has_ended(&self, now: Timestamp) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

/// The runs of one pod by container name.
pub(crate) type Runs = BTreeMap<String, Run>;

/// Every pod's runs by pod UID. Whoever changes them saves them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Containers {
    pods: BTreeMap<String, Runs>,
}

impl Containers {
    /// The file's contents.
    pub(crate) fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    pub(crate) fn runs(&self, pod_uid: &str) -> Runs {
        self.pods.get(pod_uid).cloned().unwrap_or_default()
    }

    /// Pod UID and container name of everything that runs at `now`.
    pub(crate) fn running(&self, now: Timestamp) -> BTreeSet<(String, String)> {
        let runs =
            self.pods.iter().flat_map(|(uid, runs)| runs.iter().map(move |(name, run)| (uid, name, run)));
        let running = runs.filter(|(_, _, run)| !run.has_ended(now));
        running.map(|(uid, name, _)| (uid.clone(), name.clone())).collect()
    }

    pub(crate) fn started(&mut self, pod_uid: &str, container: &str, run: Run) {
        self.pods.entry(pod_uid.to_owned()).or_default().insert(container.to_owned(), run);
    }

    /// SIGTERM to everything of the pod that still runs; containers honour it with exit code 0.
    pub(crate) fn stop(&mut self, pod_uid: &str, now: Timestamp) {
        for run in self.pods.get_mut(pod_uid).into_iter().flat_map(BTreeMap::values_mut) {
            if !run.has_ended(now) {
                run.ends = Some(now);
                run.exit_code = 0;
            }
        }
    }

    /// Forgets pods that are gone.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.pods.retain(|uid, _| keep(uid));
    }
}
