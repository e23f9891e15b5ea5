//! The extender is killed at every point at which a filter or a bind can wait, and started again, while two pods come that would be given
//! the same devices: every pod is placed, once, and none has what the other has.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_e2e_simulation::{Neuron, known, run_plan};
use serde_json::json;
use simulated_cluster::plan::{Event, Place, What};
use simulated_cluster::profile::Profile;
use simulated_cluster::{RunOptions, Seeded, Summary};
use simulator::trace::Sink;

/// More polls than the extender has from the moment two pods are there until kube-scheduler knows that both are bound.
const POLLS: u64 = 64;
/// How often an extender is killed, after how many more polls each time, and how many milliseconds apart: the pods have ended when the
/// next ones come.
struct Kills {
    count: u64,
    polls: u64,
    between: u64,
}

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
fn pod(name: &str) -> serde_json::Value {
    let limits = json!({"aws.amazon.com/neuron": "4"});
    let args = json!(["--for", "5s"]);
    let main =
        json!({"name": "main", "image": "neuron-workload", "args": args, "resources": {"limits": limits}});
    let spec = json!({"containers": [main], "restartPolicy": "Never", "schedulerName": "my-scheduler"});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
}

/// How far the two pods of each kill of an extender had come.
fn stages(trace: &str) -> Vec<[Stage; 2]> {
    let (mut stages, mut at, mut names) = (Vec::new(), [Stage::Created; 2], [String::new(), String::new()]);
    for line in trace.lines() {
        let what = line.splitn(3, ' ').nth(2).unwrap_or_default();
        let of_extender = what.starts_with("extender");
        if let Some((first, second)) = what.strip_prefix("plan: create ").and_then(|all| all.split_once(", "))
        {
            (at, names) = ([Stage::Created; 2], [first.to_owned(), second.to_owned()]);
        } else if of_extender && what.ends_with(": is killed") {
            stages.push(at);
        }
        for (at, name) in at.iter_mut().zip(&names) {
            if what.starts_with(&format!("scheduler: filter {name}: ")) {
                *at = Stage::Filtered;
            } else if of_extender
                && what.contains(&format!(": POST /api/v1/namespaces/default/pods/{name}/binding"))
            {
                *at = Stage::Bound;
            } else if what == format!("scheduler: bind {name} to n1: done") {
                *at = Stage::Done;
            }
        }
    }
    stages
}

/// Kills the extender that is on the place of each round, with a Lease of so many seconds (0: none, and one extender). What is counted,
/// and how far the two pods of each kill had come.
fn run(lease_seconds: u64, kills: Kills, place: impl Fn(u64) -> Place) -> (Summary, Vec<[Stage; 2]>) {
    let Kills { count, polls, between } = kills;
    let rounds = (0..count).flat_map(|round| {
        let at = 30_000 + round * between;
        let kill = What::Kill {
            part: "extender".to_owned(),
            on: place(round),
            after_polls: Some(1 + round * polls),
        };
        let pods = ["p", "q"].map(|name| pod(&format!("{name}{round}"))).into();
        [(at, What::Create { pods }), (at, kill)]
    });
    let end = 60_000 + count * between;
    let events = rounds.chain([(end, What::Rest { seconds: 900 })]);
    let time = Duration::from_millis(end) + Duration::from_secs(1000);
    let mut plan = Seeded::new(1, Profile::Calm, ["trn1.32xlarge"], time).plan(&Neuron::default());
    plan.settings.programs.insert("leaseSeconds".to_owned(), lease_seconds);
    plan.settings.restart_milliseconds = (0, 1000);
    plan.events = events.map(|(at, what)| Event { at, what }).collect();
    let lines = Trace::default();
    let trace = Some(Sink { to: Box::new(lines.clone()), from: Duration::ZERO });
    let summary =
        run_plan(&plan, RunOptions { known: known().unwrap(), trace, ..RunOptions::default() }).unwrap();
    let trace = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    // Two that have the same devices would be one violation, or one would have failed its admission.
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.placed, summary.refused, summary.kills), (2 * count, 0, count));
    let stages = stages(&trace);
    assert_eq!(stages.len() as u64, count);
    (summary, stages)
}

/// How often the one pod had come so far when the extender was killed, and the other as far as this.
fn count(stages: &[[Stage; 2]], first: Stage, second: Stage) -> usize {
    stages.iter().filter(|both| **both == [first, second] || **both == [second, first]).count()
}

#[test]
fn an_extender_that_is_killed_wherever_a_bind_waits_places_every_pod_once() {
    let (_, stages) = run(0, Kills { count: POLLS, polls: 1, between: 120_000 }, |_| Place::Control);
    for of in 0..2 {
        let count = |stage| stages.iter().filter(|both| both[of] == stage).count();
        let counts = [Stage::Created, Stage::Filtered, Stage::Bound, Stage::Done].map(count);
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}: {stages:?}");
    }
    // Of one pod's Binding no extender has heard yet, and the other pod asks for as much.
    let is_unheard = |other| count(&stages, Stage::Bound, other) > 0;
    assert!(is_unheard(Stage::Created) || is_unheard(Stage::Filtered), "{stages:?}");
    // The last kills come once both pods are bound, so none of the points before was left out.
    assert_eq!(stages.last(), Some(&[Stage::Done; 2]), "{stages:?}");
}

/// Each leader in turn: the one that is not killed leads then.
#[test]
fn of_two_replicas_the_next_leader_gives_nobody_what_the_killed_one_has_bound() {
    let hosts = [Place::Control, Place::SecondControl];
    let place = |round| hosts[usize::try_from(round % 2).unwrap()];
    // Fewer and sooner: their Leases are renewed all the time.
    let (summary, stages) = run(2, Kills { count: POLLS / 2, polls: 2, between: 15_000 }, place);
    // Now and then the other one leads.
    let elected = summary.branches["extender: leader elected"];
    assert!(elected >= POLLS / 2 * 3 / 4, "{elected} leaders");
    for stage in [Stage::Created, Stage::Filtered, Stage::Bound, Stage::Done] {
        assert!(stages.iter().any(|both| both.contains(&stage)), "{stage:?}: {stages:?}");
    }
}
