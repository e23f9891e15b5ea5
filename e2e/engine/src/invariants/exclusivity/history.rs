//! When containers ran, and on what: no core may be held by two pods at one time, also where both are gone in the end.
//! Filled by [`crate::run::collect`] at each look; asked by [`crate::run`] at the end, as often as that looks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use neuron_core::ids::CoreSet;
use neuron_workload::Report;

use crate::invariants::{cores_of, topology};
use crate::outcome::PodOutcome;
use crate::scenario::Scenario;

/// Every container that was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Lives(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of times that all pods were looked at.
    looks: u64,
    /// By the pod's UID and the container's name.
    containers: BTreeMap<(String, String), Life>,
}

/// One container, from its first start on; kubelet says both times in whole seconds, by one clock a node.
#[derive(Clone, Debug)]
struct Life {
    uid: String,
    pod: String,
    /// n1, n2.. in scenario order.
    node: String,
    began: Timestamp,
    /// None while it runs, and where it was deleted before anybody saw its end.
    ended: Option<Timestamp>,
    report: Report,
    /// The last look that has seen it, of a pod that is not over.
    look: u64,
}

impl Lives {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All pods are looked at once more: what is not seen now is gone.
    pub(crate) fn look_again(&self) {
        self.state().looks += 1;
    }

    /// Keeps what a look has seen of a pod: its containers' times, and what each of them has got.
    pub(crate) fn seen<'s>(
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
        // Of a pod that kubelet fails after a reboot it tells what its containers did before.
        let is_over = matches!(outcome.phase.as_str(), "Succeeded" | "Failed");
        let look = if is_over { 0 } else { state.looks };
        for status in statuses {
            let key = (uid.clone(), status.name.clone());
            let Some((began, ended)) = times(status) else {
                // Between two lives; what it holds it goes on holding.
                if let Some(before) = state.containers.get_mut(&key) {
                    (before.ended, before.look) = (None, look);
                }
                continue;
            };
            let Some(report) = outcome.containers.get(&status.name) else { continue };
            let began = state.containers.get(&key).map_or(began, |before| before.began.min(began));
            let (uid, pod, node) = (uid.clone(), name.clone(), node.clone());
            let life = Life { uid, pod, node, began, ended, report: report.clone(), look };
            state.containers.insert(key, life);
        }
    }

    /// What two pods held at one time, one sentence each; empty if nothing was.
    pub(crate) fn held_at_one_time(&self, scenario: &Scenario) -> Vec<String> {
        let state = self.state();
        let holding = |life: &Life| {
            let cores = cores_of(&life.report, &topology(scenario, &life.node)?);
            (!cores.is_empty()).then(|| (life.clone(), cores))
        };
        let mut lives: Vec<(Life, CoreSet)> = state.containers.values().filter_map(holding).collect();
        // Of two that began in the same second the one that ended first may have been the first.
        lives.sort_by_key(|(life, _)| (life.began, life.ended.unwrap_or(Timestamp::MAX)));
        let mut failures = Vec::new();
        for (place, (later, wanted)) in lives.iter().enumerate() {
            for (earlier, held) in &lives[..place] {
                let others = earlier.uid != later.uid && earlier.node == later.node;
                // Of one whose end nobody saw nothing can be said.
                let still = earlier.ended.map_or(earlier.look == state.looks, |ended| ended > later.began);
                if others && still && held.intersects(*wanted) {
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

/// When the container began, in its earliest life that kubelet still tells of, and when it ended, if it has.
fn times(status: &ContainerStatus) -> Option<(Timestamp, Option<Timestamp>)> {
    // Of a container that could not be started kubelet says that it began in 1970.
    let told =
        |time: &Option<Time>| time.as_ref().map(|time| time.0).filter(|time| *time > Timestamp::UNIX_EPOCH);
    let state = status.state.as_ref()?;
    let before = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let before = before.and_then(|last| told(&last.started_at));
    let (began, ended) = match (&state.running, &state.terminated) {
        (Some(running), _) => (told(&running.started_at)?, None),
        (None, Some(ended)) => (told(&ended.started_at)?, Some(told(&ended.finished_at)?)),
        (None, None) => return None,
    };
    Some((before.map_or(began, |before| before.min(began)), ended))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::scenario::library;

    fn scenario() -> Scenario {
        let text = "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: []\n";
        library::parse("lives", text).unwrap().remove(0)
    }

    /// A pod of that name whose container `main` sees these cores and is in this state. Only `rebooted` has failed.
    fn pod(name: &str, cores: &str, state: &Value) -> (Pod, PodOutcome) {
        let pod = json!({
            "metadata": {"name": name, "uid": format!("uid of {name}")},
            "status": {"containerStatuses": [
                {"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state},
            ]},
        });
        let report: Report =
            serde_json::from_value(json!({"env": {"NEURON_RT_VISIBLE_CORES": cores}, "devices": []}))
                .unwrap();
        let containers = BTreeMap::from([("main".to_owned(), report)]);
        let phase = if name == "rebooted" { "Failed" } else { "Running" }.to_owned();
        let outcome = PodOutcome { phase, node: Some("n1".into()), containers, ..PodOutcome::default() };
        (serde_json::from_value(pod).unwrap(), outcome)
    }

    fn at(second: u32) -> String {
        format!("2026-11-21T12:00:{second:02}Z")
    }

    fn ran(from: u32, to: u32) -> Value {
        json!({"terminated": {"exitCode": 0, "startedAt": at(from), "finishedAt": at(to)}})
    }

    fn runs(from: u32) -> Value {
        json!({"running": {"startedAt": at(from)}})
    }

    /// What is wrong where these pods were seen at these looks, one after the other.
    fn wrong(looks: &[&[(&str, &str, Value)]]) -> Vec<String> {
        let lives = Lives::default();
        for look in looks {
            lives.look_again();
            for (name, cores, state) in *look {
                let (pod, outcome) = pod(name, cores, state);
                let statuses = pod.status.clone().unwrap().container_statuses.unwrap();
                lives.seen(&pod, &outcome, statuses.iter());
            }
        }
        lives.held_at_one_time(&scenario())
    }

    #[test]
    fn a_pod_that_began_before_another_had_ended_is_told() {
        let told = ["pod all began to hold cores 1 of n1 at 2026-11-21T12:00:03Z, while pod short held them"];
        assert_eq!(wrong(&[&[("short", "1", ran(2, 4)), ("all", "0,1", ran(3, 9))]]), told);
        assert_eq!(wrong(&[&[("short", "1", ran(2, 4))], &[("all", "0,1", runs(3))]]), told);
        assert_eq!(wrong(&[&[("short", "1", runs(2)), ("all", "0,1", runs(3))]]), told);
    }

    #[test]
    fn a_container_that_waits_to_be_started_again_holds_what_it_held() {
        let waits = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let looks: [&[_]; 2] = [&[("one", "1", ran(2, 3))], &[("one", "1", waits), ("two", "1", runs(5))]];
        assert_eq!(wrong(&looks).len(), 1);
    }

    #[test]
    fn a_container_that_could_not_be_started_held_nothing() {
        let not_started = json!({"terminated": {
            "exitCode": 128, "startedAt": "1970-01-01T00:00:00Z", "finishedAt": at(9),
        }});
        assert!(wrong(&[&[("one", "1", ran(2, 3)), ("two", "1", not_started)]]).is_empty());
    }

    #[test]
    fn one_after_the_other_and_side_by_side_on_other_cores_is_right() {
        let nothing: [&str; 0] = [];
        assert_eq!(wrong(&[&[("short", "1", ran(2, 3)), ("all", "0,1", ran(3, 3))]]), nothing);
        assert_eq!(wrong(&[&[("short", "1", ran(3, 3)), ("all", "0,1", runs(3))]]), nothing);
        assert_eq!(wrong(&[&[("one", "0", runs(2)), ("two", "1", runs(3))]]), nothing);
        // Nobody knows when it ended: deleted between the looks, failed by a kubelet that came back.
        assert_eq!(wrong(&[&[("rebooted", "1", runs(2)), ("all", "0,1", runs(3))]]), nothing);
        assert_eq!(wrong(&[&[("short", "1", runs(2))], &[("all", "0,1", runs(3))]]), nothing);
    }
}
