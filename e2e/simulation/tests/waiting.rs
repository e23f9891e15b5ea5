//! Pods that nobody can place, and what is done about a violation that is known, as the trace tells it.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_e2e_simulation::{Neuron, known, run_plan};
use serde_json::{Value, json};
use simulated_cluster::plan::{Event, Plan, What};
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

#[test]
fn a_pod_that_waits_in_vain_is_judged_at_a_rest_and_given_up_after_an_hour() {
    let time = Duration::from_secs(2 * 3600);
    let plan = Seeded::new(1, Profile::Calm, ["trn1.32xlarge"], time).plan(&Neuron::default());
    let minute = |minute: u64, what| Event { at: minute * 60_000, what };
    let events = vec![
        minute(5, pod("all", 16)),
        minute(10, pod("waits", 16)),
        minute(40, What::Rest { seconds: 900 }),
    ];
    let (summary, lines) = traced(&Plan { events, ..plan });
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    let given_up = lines.seconds_of("DELETE /api/v1/namespaces/default/pods/waits").unwrap();
    assert!((70 * 60..71 * 60).contains(&given_up), "given up after {given_up} s");
    assert_eq!(lines.seconds_of("DELETE /api/v1/namespaces/default/pods/all"), None);
}
