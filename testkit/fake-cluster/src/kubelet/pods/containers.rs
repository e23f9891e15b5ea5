//! The node's containers, which outlive the kubelet as containerd's do: `containers.json`. Written by `worker`; `ends` tells
//! of their ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use runtime::reached;
use serde::{Deserialize, Serialize};

use crate::clock::later;
use crate::kubelet::container_runtime::{ContainerRun, ContainerStart};
use crate::kubelet::device_manager::plugins::Ids;

/// Exit code of a container that SIGTERM ends, and of one that SIGKILL ends (128 and the signal's number).
const TERMINATED: i32 = 0;
const KILLED: i32 = 137;

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

/// A run with what it was started as.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) start: ContainerStart,
    pub(crate) run: Run,
    /// How long it takes to end after SIGTERM.
    termination: Duration,
    /// Whether its end was told.
    end_is_told: bool,
}

/// Every pod's containers by pod UID. Whoever changes them saves them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Containers {
    pods: BTreeMap<String, BTreeMap<String, Container>>,
}

impl Containers {
    /// The file's contents.
    pub(crate) fn json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    pub(crate) fn runs(&self, pod_uid: &str) -> Runs {
        let containers = self.pods.get(pod_uid).into_iter().flatten();
        containers.map(|(name, container)| (name.clone(), container.run.clone())).collect()
    }

    /// Everything that runs at `now`.
    pub(crate) fn running(&self, now: Timestamp) -> impl Iterator<Item = &ContainerStart> {
        let running = self.all().filter(move |container| !container.run.has_ended(now));
        running.map(|container| &container.start)
    }

    /// Whether containers of other pods run at `now` with any of these ids of `resource`.
    pub(crate) fn others_have(&self, pod_uid: &str, resource: &str, ids: &Ids, now: Timestamp) -> bool {
        let mut others = self.running(now).filter(|container| container.pod_uid != pod_uid);
        others.any(|container| container.ids.get(resource).is_some_and(|theirs| !theirs.is_disjoint(ids)))
    }

    /// UIDs of the pods that have or had containers here.
    pub(crate) fn pods(&self) -> BTreeSet<String> {
        self.pods.keys().cloned().collect()
    }

    /// The container was started at `now`, and does what `run` says.
    pub(crate) fn started(&mut self, start: ContainerStart, now: Timestamp, run: &ContainerRun) {
        let containers = self.pods.entry(start.pod_uid.clone()).or_default();
        let restarts = containers.get(&start.container).map_or(0, |before| before.run.restarts + 1);
        let (ends, exit_code) = match run.ends {
            Some((span, code)) => (now.checked_add(span).ok(), code),
            None => (None, 0),
        };
        let run = Container {
            run: Run { started: now, ends, exit_code, restarts },
            termination: run.termination,
            end_is_told: false,
            start,
        };
        containers.insert(run.start.container.clone(), run);
    }

    /// SIGTERM to everything of the pod that still runs, and SIGKILL after `grace`. Repeated, it can only hasten the end.
    /// When the last of it ends; `None` if nothing runs.
    pub(crate) fn terminate(&mut self, pod_uid: &str, now: Timestamp, grace: Duration) -> Option<Timestamp> {
        let mut last = None;
        for container in self.pods.get_mut(pod_uid).into_iter().flat_map(BTreeMap::values_mut) {
            let run = &mut container.run;
            if run.has_ended(now) {
                continue;
            }
            let (span, code) = if container.termination > grace {
                (grace, KILLED)
            } else {
                (container.termination, TERMINATED)
            };
            let ends = later(now, span);
            if run.ends.is_none_or(|before| before > ends) {
                if code == KILLED {
                    reached("cluster: a container takes all of its grace");
                }
                (run.ends, run.exit_code) = (Some(ends), code);
            }
            last = last.max(run.ends);
        }
        last.filter(|last| *last > now)
    }

    /// SIGKILL to one container. Whether it ran.
    pub(crate) fn kill(&mut self, pod_uid: &str, container: &str, now: Timestamp) -> bool {
        let found = self.pods.get_mut(pod_uid).and_then(|containers| containers.get_mut(container));
        let Some(found) = found.filter(|found| !found.run.has_ended(now)) else { return false };
        (found.run.ends, found.run.exit_code) = (Some(now), KILLED);
        true
    }

    /// Forgets a pod of which nothing runs.
    pub(crate) fn forget_ended(&mut self, pod_uid: &str, now: Timestamp) {
        let runs = self.pods.get(pod_uid).into_iter().flat_map(BTreeMap::values);
        if runs.into_iter().all(|container| container.run.has_ended(now)) {
            self.forget(pod_uid);
        }
    }

    /// Forgets a pod.
    pub(crate) fn forget(&mut self, pod_uid: &str) {
        self.pods.remove(pod_uid);
    }

    /// The containers that have ended by `now` and were not given before, in the order of their ends.
    pub(crate) fn newly_ended(&mut self, now: Timestamp) -> Vec<Container> {
        let containers = self.pods.values_mut().flat_map(BTreeMap::values_mut);
        let ended = containers.filter(|container| !container.end_is_told && container.run.has_ended(now));
        let mut ended: Vec<Container> = ended
            .map(|container| {
                container.end_is_told = true;
                container.clone()
            })
            .collect();
        ended.sort_by_key(|container| container.run.ends);
        ended
    }

    /// When the next one ends whose end was not given yet.
    pub(crate) fn next_end(&self) -> Option<Timestamp> {
        let untold = self.all().filter(|container| !container.end_is_told);
        untold.filter_map(|container| container.run.ends).min()
    }

    fn all(&self) -> impl Iterator<Item = &Container> {
        self.pods.values().flat_map(BTreeMap::values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_orphan_that_was_started_again_is_not_forgotten() {
        let start = serde_json::json!({"pod_namespace": "d", "pod_name": "p", "pod_uid": "u", "container": "main",
            "args": [], "env": {}, "devices": [], "annotations": {}, "ids": {}});
        let start: ContainerStart = serde_json::from_value(start).unwrap();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut containers = Containers::default();
        containers.started(start.clone(), at(0), &ContainerRun::default());
        containers.terminate("u", at(10), Duration::ZERO);
        // Its pod has come, and begins again.
        containers.started(start, at(11), &ContainerRun::default());
        containers.forget_ended("u", at(12));
        assert_eq!(containers.running(at(12)).count(), 1);
        containers.terminate("u", at(20), Duration::ZERO);
        containers.forget_ended("u", at(20));
        assert!(containers.pods().is_empty());
    }
}
