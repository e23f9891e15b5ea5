//! The node's containers, which outlive the kubelet as containerd's do: `containers.json`. Written by `worker`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kubelet::files;

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

/// Every pod's runs by pod UID.
#[derive(Debug)]
pub(crate) struct Containers {
    path: PathBuf,
    pods: BTreeMap<String, Runs>,
}

impl Containers {
    /// The containers that the kubelet before has left.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let pods = files::read(&path)?.unwrap_or_default();
        Ok(Self { path, pods })
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
        self.save();
    }

    /// SIGTERM to everything of the pod that still runs; containers honour it with exit code 0.
    pub(crate) fn stop(&mut self, pod_uid: &str, now: Timestamp) {
        for run in self.pods.get_mut(pod_uid).into_iter().flat_map(BTreeMap::values_mut) {
            if !run.has_ended(now) {
                run.ends = Some(now);
                run.exit_code = 0;
            }
        }
        self.save();
    }

    /// Forgets pods that are gone.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.pods.retain(|uid, _| keep(uid));
        self.save();
    }

    fn save(&self) {
        if let Err(error) = files::write(&self.path, &self.pods) {
            tracing::error!(path = %self.path.display(), %error, "cannot write the node's containers");
        }
    }
}
