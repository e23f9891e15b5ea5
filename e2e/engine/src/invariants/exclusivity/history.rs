//! When containers ran and on what, so that two pods that held a core at one time are found where both are gone in the end.
//! Filled by [`crate::run::collect`] at each look; asked when a scenario is over, as often as that looks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use neuron_core::ids::CoreSet;
use neuron_workload::Report;

use super::super::hardware::{Hardware, seen_by};
use crate::outcome::PodOutcome;
use crate::scenario::Scenario;

/// Every container that was seen so far.
#[derive(Debug, Default)]
pub struct History(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How often all pods were looked at.
    looks: u64,
    /// Lifetimes by the pod's UID and the container's name.
    containers: BTreeMap<(String, String), Lifetime>,
}

/// One container, from its first start on. kubelet gives both times in whole seconds, by one clock a node.
#[derive(Clone, Debug)]
struct Lifetime {
    uid: String,
    pod: String,
    /// n1, n2.. in scenario order.
    node: String,
    began: Timestamp,
    /// None while it runs, and where it was deleted before anybody saw its end.
    ended: Option<Timestamp>,
    /// Where its pod was deleted: when it had not ended yet, in whole seconds, the last of which has begun then.
    held_until: Option<Timestamp>,
    report: Report,
    /// The last look that has seen it in a pod that was not over; 0 if the pod was.
    last_look: u64,
}

impl History {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a look at all pods: a container that it does not see is gone.
    pub fn begin_look(&self) {
        self.state().looks += 1;
    }

    /// Adds what a look has seen of a pod: its containers' times, and what each of them has got.
    pub fn add<'s>(
        &self,
        pod: &Pod,
        outcome: &PodOutcome,
        statuses: impl Iterator<Item = &'s ContainerStatus>,
    ) {
        let (Some(name), Some(uid), Some(node)) = (&pod.metadata.name, &pod.metadata.uid, &outcome.node)
        else {
            return;
        };
        let mut state = self.state();
        // kubelet, having failed a pod after a reboot, still shows what its containers did before.
        let is_over = matches!(outcome.phase.as_str(), "Succeeded" | "Failed");
        let last_look = if is_over { 0 } else { state.looks };
        for status in statuses {
            let key = (uid.clone(), status.name.clone());
            let Some((began, ended)) = times(status) else {
                // It waits to be started again, and goes on holding what it holds.
                if let Some(before) = state.containers.get_mut(&key) {
                    (before.ended, before.last_look) = (None, last_look);
                }
                continue;
            };
            let Some(report) = outcome.containers.get(&status.name) else { continue };
            let began = state.containers.get(&key).map_or(began, |before| before.began.min(began));
            let (uid, pod, node) = (uid.clone(), name.clone(), node.clone());
            let (report, held_until) = (report.clone(), None);
            let lifetime = Lifetime { uid, pod, node, began, ended, held_until, report, last_look };
            state.containers.insert(key, lifetime);
        }
    }

    /// Takes note that a pod is deleted now, whose containers have not ended by what was seen of them last. When they end nobody sees:
    /// that they hold what they have until now is certain, and no more. Of a pod deleted by force that is as much as there is to judge:
    /// kubelet offers its devices again while its containers still have their grace, and only a plugin with `--handover` waits for them.
    pub fn held_until(&self, uid: &str, now: Timestamp) {
        let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let mut state = self.state();
        let of_pod = state.containers.iter_mut().filter(|((of, _), _)| of == uid);
        for (_, lifetime) in of_pod.filter(|(_, lifetime)| lifetime.ended.is_none()) {
            lifetime.held_until = Some(seconds);
        }
    }

    /// What two pods held at one time, one sentence each; empty if nothing was.
    pub(crate) fn held_at_one_time(&self, scenario: &Scenario) -> Vec<String> {
        let state = self.state();
        let holding = |lifetime: &Lifetime| {
            let cores = seen_by(&lifetime.report, Hardware::of(scenario, &lifetime.node)?);
            (!cores.is_empty()).then(|| (lifetime.clone(), cores))
        };
        let mut lifetimes: Vec<(Lifetime, CoreSet)> = state.containers.values().filter_map(holding).collect();
        // Where two began in the same second, the one that ended first may have been the first; so may one that is gone.
        let end = |lifetime: &Lifetime| {
            let is_gone = lifetime.last_look != state.looks;
            lifetime.known_end().or(is_gone.then_some(lifetime.began)).unwrap_or(Timestamp::MAX)
        };
        lifetimes.sort_by_key(|(lifetime, _)| (lifetime.began, end(lifetime)));
        let mut failures = Vec::new();
        for (place, (later, wanted)) in lifetimes.iter().enumerate() {
            for (earlier, held) in &lifetimes[..place] {
                let are_apart = earlier.uid == later.uid || earlier.node != later.node;
                // A container whose end nobody saw may have ended before.
                let is_seen = earlier.last_look == state.looks;
                let still_ran = earlier.known_end().map_or(is_seen, |end| end > later.began);
                if !are_apart && still_ran && held.intersects(*wanted) {
                    failures.push(format!(
                        "pod {} began to hold cores {} of {} at {}, while pod {} held them",
                        later.pod,
                        held.intersection(*wanted),
                        later.node,
                        later.began,
                        earlier.pod
                    ));
                }
            }
        }
        failures
    }
}

impl Lifetime {
    /// Until when it has held what it has, as far as anybody knows.
    fn known_end(&self) -> Option<Timestamp> {
        self.ended.or(self.held_until)
    }
}

/// When the container began, in its earliest run that kubelet still shows, and when it ended, if it has.
fn times(status: &ContainerStatus) -> Option<(Timestamp, Option<Timestamp>)> {
    // A container that could not be started began in 1970, by kubelet.
    let real =
        |time: &Option<Time>| time.as_ref().map(|time| time.0).filter(|time| *time > Timestamp::UNIX_EPOCH);
    let state = status.state.as_ref()?;
    let before = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let before = before.and_then(|last| real(&last.started_at));
    let (began, ended) = match (&state.running, &state.terminated) {
        (Some(running), _) => (real(&running.started_at)?, None),
        (None, Some(ended)) => (real(&ended.started_at)?, Some(real(&ended.finished_at)?)),
        (None, None) => return None,
    };
    Some((before.map_or(began, |before| before.min(began)), ended))
}
