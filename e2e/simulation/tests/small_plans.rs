//! What a small plan comes to, as the summary and the trace tell it: pods that wait in vain, requests that arrive late, devices that
//! break twice.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_e2e_simulation::{Neuron, known, run_plan};
use serde_json::{Value, json};
use simulated_cluster::plan::{Event, Place, Plan, What};
use simulated_cluster::profile::Profile;
use simulated_cluster::{RunOptions, Seeded, Summary};
use simulator::trace::Sink;

/// What a run's trace says.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// When the first line that has this text was written, in seconds of simulated time.
    fn seconds_of(&self, text: &str) -> Option<u64> {
        let trace = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = trace.lines().find(|line| line.contains(text))?;
        // `0d 01:02:03.004 part: what`
        let mut parts = line.split_whitespace();
        let days: u64 = parts.next()?.trim_end_matches('d').parse().ok()?;
        let mut clock = parts.next()?.split(['.', ':']).map(|part| part.parse::<u64>().unwrap());
        Some(((days * 24 + clock.next()?) * 60 + clock.next()?) * 60 + clock.next()?)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn traced(plan: &Plan) -> (Summary, Lines) {
    let lines = Lines::default();
    let trace = Some(Sink { to: Box::new(lines.clone()), from: Duration::ZERO });
    let known = known().unwrap();
    (run_plan(plan, RunOptions { known, trace, ..RunOptions::default() }).unwrap(), lines)
}

/// A pod that asks for so many devices and does not end.
fn manifest(devices: u32) -> Value {
    let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
    let main = json!({"name": "main", "image": "neuron-workload", "resources": {"limits": limits}});
    let spec = json!({
        "containers": [main],
        "restartPolicy": "Never",
        "schedulerName": "my-scheduler",
        "terminationGracePeriodSeconds": 30,
    });
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec})
}

fn pod(name: &str, devices: u32) -> What {
    let mut pod = manifest(devices);
    pod["metadata"]["name"] = name.into();
    What::Create { pods: vec![pod] }
}

/// A plan for one trn1.32xlarge: what happens, each at its second.
fn plan(seconds: u64, events: Vec<(u64, What)>) -> Plan {
    let time = Duration::from_secs(seconds);
    let plan = Seeded::new(1, Profile::Calm, ["trn1.32xlarge"], time).plan(&Neuron::default());
    let events = events.into_iter().map(|(second, what)| Event { at: second * 1000, what });
    Plan { events: events.collect(), ..plan }
}

fn device(device: u32, fault: &str, seconds: Option<u32>) -> What {
    What::Device { node: 0, device, fault: fault.to_owned(), seconds }
}

#[test]
fn a_pod_that_waits_in_vain_is_judged_at_a_rest_and_given_up_after_an_hour() {
    let rest = What::Rest { seconds: 900 };
    let plan = plan(7200, vec![(300, pod("all", 16)), (600, pod("waits", 16)), (2400, rest)]);
    let (summary, lines) = traced(&plan);
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    let given_up = lines.seconds_of("DELETE /api/v1/namespaces/default/pods/waits").unwrap();
    assert!((70 * 60..71 * 60).contains(&given_up), "given up after {given_up} s");
    assert_eq!(lines.seconds_of("DELETE /api/v1/namespaces/default/pods/all"), None);
}

#[test]
fn what_runs_on_after_kubelet_has_lost_its_books_is_held_and_reported() {
    let kubelet = "kubelet".to_owned();
    let events = vec![
        (60, pod("runs", 4)),
        (90, What::CheckpointGarbled { node: 0 }),
        (91, What::Kill { part: kubelet, on: Place::Node(0), after_polls: None }),
        (300, pod("all", 16)),
        (600, pod("rest", 8)),
        (2400, What::Rest { seconds: 900 }),
    ];
    let (summary, lines) = traced(&plan(3400, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.faults["checkpoint garbled"], summary.placed, summary.refused), (1, 2, 0));
    assert!(lines.seconds_of("container: default/rest main starts").is_some());
    assert_eq!(lines.seconds_of("container: default/all main starts"), None);
}

#[test]
fn a_binding_may_arrive_long_after_the_extender_gave_it_up() {
    let (from, to) = (Place::Control, Place::ApiServer);
    let cut = What::Cut { from, to, both: false, reset: false, seconds: 30 };
    let (summary, lines) = traced(&plan(300, vec![(59, cut), (60, pod("late", 4))]));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    let arrived = lines.seconds_of("pods/late/binding? -> arrives after its sender has given up").unwrap();
    assert!((89..95).contains(&arrived), "after {arrived} s");
    assert!(summary.faults["request late"] > 0, "{:?}", summary.faults);
    assert_eq!(summary.placed, 1);
}

#[test]
fn a_device_that_is_broken_for_good_is_not_mended_by_the_end_of_another_fault() {
    let rest = || What::Rest { seconds: 900 };
    let twice = vec![(60, device(2, "lost", None)), (90, device(2, "unhealthy", Some(54))), (2400, rest())];
    let (summary, _) = traced(&plan(3400, twice));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.faults.get("device lost"), summary.faults.get("device unhealthy")), (Some(&1), None));
}

#[test]
fn a_fault_of_a_machine_does_not_end_on_the_one_that_replaces_it() {
    let events = vec![
        (60, device(2, "unhealthy", Some(300))),
        (90, What::ReplaceNode { node: 0, seconds: 20 }),
        (200, device(2, "lost", None)),
        (2400, What::Rest { seconds: 900 }),
    ];
    let (summary, _) = traced(&plan(3400, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
}
