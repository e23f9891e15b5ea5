//! Small plans, and what their runs' traces say.
#![allow(dead_code, reason = "no test needs all of it")]

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
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.text().lines().filter(|line| line.contains(text)).count()
    }

    /// When the first line that has this text was written, in seconds of simulated time.
    pub(crate) fn seconds_of(&self, text: &str) -> Option<u64> {
        let trace = self.text();
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

pub(crate) fn traced(plan: &Plan) -> (Summary, Lines) {
    let lines = Lines::default();
    let trace = Some(Sink { to: Box::new(lines.clone()), from: Duration::ZERO });
    let known = known().unwrap();
    (run_plan(plan, RunOptions { known, trace, ..RunOptions::default() }).unwrap(), lines)
}

/// A pod that asks for so many devices and does not end.
pub(crate) fn manifest(devices: u32) -> Value {
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

pub(crate) fn pod(name: &str, devices: u32) -> What {
    let mut pod = manifest(devices);
    pod["metadata"]["name"] = name.into();
    What::Create { pods: vec![pod] }
}

/// A plan for one trn1.32xlarge: what happens, each at its second.
pub(crate) fn plan(seconds: u64, events: Vec<(u64, What)>) -> Plan {
    plan_of(1, seconds, events)
}

/// A plan for so many trn1.32xlarge: what happens, each at its second.
pub(crate) fn plan_of(nodes: usize, seconds: u64, events: Vec<(u64, What)>) -> Plan {
    let time = Duration::from_secs(seconds);
    let nodes = vec!["trn1.32xlarge"; nodes];
    let plan = Seeded::new(1, Profile::Calm, nodes, time).plan(&Neuron::default());
    let events = events.into_iter().map(|(second, what)| Event { at: second * 1000, what });
    Plan { events: events.collect(), ..plan }
}
