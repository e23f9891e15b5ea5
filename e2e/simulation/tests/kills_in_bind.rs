//! The extender is killed at every point at which a filter or a bind can wait, and started again: every pod is placed, once.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_e2e_simulation::{Neuron, known, run_plan};
use serde_json::json;
use simulated_cluster::plan::{Event, Place, What};
use simulated_cluster::profile::Profile;
use simulated_cluster::{RunOptions, Seeded};
use simulator::trace::Sink;

/// More polls than the extender has from the moment a pod is there until kube-scheduler knows that it is bound.
const POLLS: u64 = 32;
/// Between two pods, in milliseconds: each has ended when the next one comes.
const BETWEEN: u64 = 120_000;

/// What a run's trace says.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<u8>>>);

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How far a pod had come when the extender was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Created,
    /// filter is answered, and bind asked for.
    Filtered,
    /// The API server has carried out the Binding, and its answer is on the way.
    Bound,
    /// kube-scheduler knows that it is bound.
    Done,
}

/// A pod that asks for four devices and ends soon.
fn pod(number: u64) -> What {
    let limits = json!({"aws.amazon.com/neuron": "4"});
    let args = json!(["--for", "5s"]);
    let main =
        json!({"name": "main", "image": "neuron-workload", "args": args, "resources": {"limits": limits}});
    let spec = json!({"containers": [main], "restartPolicy": "Never", "schedulerName": "my-scheduler"});
    let metadata = json!({"name": format!("p{number}")});
    What::Create {
        pods: vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})],
    }
}

/// How far the pod of each kill had come.
fn stages(trace: &str) -> Vec<Stage> {
    let (mut stages, mut at, mut round) = (Vec::new(), Stage::Created, 0u64);
    for line in trace.lines() {
        let what = line.splitn(3, ' ').nth(2).unwrap_or_default();
        let binding = format!("extender: POST /api/v1/namespaces/default/pods/p{round}/binding");
        if let Some(number) = what.strip_prefix("plan: create p") {
            (at, round) = (Stage::Created, number.parse().unwrap());
        } else if what.starts_with(&format!("scheduler: filter p{round}: ")) {
            at = Stage::Filtered;
        } else if what.starts_with(&binding) {
            at = Stage::Bound;
        } else if what == format!("scheduler: bind p{round} to n1: done") {
            at = Stage::Done;
        } else if what == "extender: is killed" {
            stages.push(at);
        }
    }
    stages
}

#[test]
fn an_extender_that_is_killed_wherever_a_bind_waits_places_every_pod_once() {
    let rounds = (0..POLLS).flat_map(|round| {
        let at = 30_000 + round * BETWEEN;
        let (part, after_polls) = ("extender".to_owned(), Some(round + 1));
        [(at, pod(round)), (at, What::Kill { part, on: Place::Control, after_polls })]
    });
    let end = 60_000 + POLLS * BETWEEN;
    let events = rounds.chain([(end, What::Rest { seconds: 900 })]);
    let time = Duration::from_millis(end) + Duration::from_secs(1000);
    let mut plan = Seeded::new(1, Profile::Calm, ["trn1.32xlarge"], time).plan(&Neuron::default());
    plan.settings.programs.insert("leaseSeconds".to_owned(), 0);
    plan.settings.restart_milliseconds = (0, 1000);
    plan.events = events.map(|(at, what)| Event { at, what }).collect();
    let lines = Trace::default();
    let trace = Some(Sink { to: Box::new(lines.clone()), from: Duration::ZERO });
    let summary =
        run_plan(&plan, RunOptions { known: known().unwrap(), trace, ..RunOptions::default() }).unwrap();
    let trace = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.placed, summary.refused, summary.kills), (POLLS, 0, POLLS));
    let stages = stages(&trace);
    let count = |stage| stages.iter().filter(|other| **other == stage).count();
    let counts = [Stage::Created, Stage::Filtered, Stage::Bound, Stage::Done].map(count);
    // The last kills come once the pod is bound, so none of the points before was left out.
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}: {stages:?}");
    assert_eq!(stages.last(), Some(&Stage::Done), "{stages:?}");
}
