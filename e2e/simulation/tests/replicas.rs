//! Two extenders of which one leads, by a Lease of two seconds: what becomes of pods when leaders are killed, cut off and stopped.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::time::Duration;

use neuron_e2e_simulation::{Neuron, known, run_plan};
use serde_json::json;
use simulated_cluster::plan::{Event, Place, Plan, What};
use simulated_cluster::profile::Profile;
use simulated_cluster::{RunOptions, Seeded, Summary};

/// The hosts of the two extenders.
const HOSTS: [Place; 2] = [Place::Control, Place::SecondControl];

/// Runs a plan in which this happens, each at its millisecond, with a rest of a quarter of an hour after these seconds.
fn run(seconds: u64, mut events: Vec<(u64, What)>) -> Summary {
    let machines = ["trn1.32xlarge", "inf2.48xlarge"];
    let seeded = Seeded::new(1, Profile::Calm, machines, Duration::from_secs(seconds + 1000));
    let mut plan = seeded.plan(&Neuron::default());
    plan.settings.programs.insert("leaseSeconds".to_owned(), 2);
    plan.settings.restart_milliseconds = (0, 1000);
    events.push((seconds * 1000, What::Rest { seconds: 900 }));
    plan.events = events.into_iter().map(|(at, what)| Event { at, what }).collect();
    plan.events.sort_by_key(|event| event.at);
    let plan = Plan::parse(&plan.to_text()).unwrap();
    let summary = run_plan(&plan, RunOptions { known: known().unwrap(), ..RunOptions::default() }).unwrap();
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    summary
}

/// A pod that asks for so many cores and runs for so many seconds.
fn pod(number: u64, cores: u64, seconds: u64) -> What {
    let limits = json!({"aws.amazon.com/neuroncore": cores.to_string()});
    let args = json!(["--for", format!("{seconds}s")]);
    let main =
        json!({"name": "main", "image": "neuron-workload", "args": args, "resources": {"limits": limits}});
    let spec = json!({"containers": [main], "restartPolicy": "Never", "schedulerName": "my-scheduler"});
    let metadata = json!({"name": format!("p{number}")});
    What::Create {
        pods: vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})],
    }
}

/// The extender on each host in turn is killed amid what it does: the one that is not killed leads then. 500 in a build that is optimised.
#[test]
fn leaders_are_killed_and_no_pod_is_lost() {
    // Some find a replica that does not lead.
    const KILLS: u64 = if cfg!(debug_assertions) { 44 } else { 640 };
    const LEADERS: u64 = if cfg!(debug_assertions) { 35 } else { 500 };
    const BETWEEN: u64 = 12_000;
    let mut events = Vec::new();
    for number in 0..KILLS {
        let on = HOSTS[usize::try_from(number % 2).unwrap()];
        let at = 30_000 + number * BETWEEN;
        // One pod is asked for about when it is killed, which is some polls later.
        events.push((at, pod(2 * number, 1 + number % 8, 20)));
        let after_polls = Some(1 + number * 7 % 61);
        events.push((at + 20, What::Kill { part: "extender".to_owned(), on, after_polls }));
        events.push((at + BETWEEN / 2, pod(2 * number + 1, 1 + number % 3, 20)));
    }
    let summary = run(60 + KILLS * BETWEEN / 1000, events);
    let elected = summary.branches["extender: leader elected"];
    assert!(elected >= LEADERS, "{elected} leaders");
    assert_eq!((summary.placed, summary.refused, summary.kills), (2 * KILLS, 0, KILLS));
}

/// A leader that hears nothing from the API server must have stopped before the other one begins, and places again later.
#[test]
fn a_leader_that_is_cut_off_places_nothing_until_it_leads_again() {
    let mut events = Vec::new();
    for (number, on) in HOSTS.into_iter().cycle().take(40).enumerate() {
        let at = 30_000 + u64::try_from(number).unwrap() * 20_000;
        let (both, reset) = (number % 3 != 0, number % 4 == 0);
        events.push((at, What::Cut { from: on, to: Place::ApiServer, both, reset, seconds: 8 }));
        for pods in 0..4 {
            events.push((at + pods * 1500, pod(4 * u64::try_from(number).unwrap() + pods, 2, 30)));
        }
    }
    let summary = run(900, events);
    assert!(summary.branches["extender: lease of another leader is over"] >= 30, "{:#?}", summary.branches);
    assert_eq!((summary.placed, summary.refused), (160, 0));
}

/// As by SIGSTOP, or a machine that swaps: it goes on as if no time had passed.
#[test]
fn a_leader_that_stood_still_finds_another_one_in_its_place() {
    let mut events = Vec::new();
    for (number, on) in HOSTS.into_iter().cycle().take(40).enumerate() {
        let at = 30_000 + u64::try_from(number).unwrap() * 20_000;
        events.push((at, pod(2 * u64::try_from(number).unwrap(), 2, 30)));
        let freeze = What::Freeze { part: "extender".to_owned(), on, seconds: 6 };
        events.push((at + 10 + u64::try_from(number).unwrap() % 7, freeze));
        events.push((at + 1000, pod(2 * u64::try_from(number).unwrap() + 1, 2, 30)));
    }
    let summary = run(900, events);
    assert!(summary.branches["extender: leader deposed"] >= 30, "{:#?}", summary.branches);
    assert_eq!(summary.placed, 80);
}

/// The other replica's watches lag when its leader is killed right after a bind: what it lists before its first Binding shows the pod.
#[test]
fn a_new_leader_lists_the_pods_before_it_places_one() {
    const KILLS: u64 = 4;
    const BETWEEN: u64 = 90_000;
    let mut events = Vec::new();
    for (number, on) in (0..KILLS).zip(HOSTS.into_iter().cycle()) {
        let at = 30_000 + number * BETWEEN;
        let other = if on == HOSTS[0] { HOSTS[1] } else { HOSTS[0] };
        events.push((at, What::WatchLag { on: other, milliseconds: 20_000, seconds: 10 }));
        events.push((at + 1000, pod(2 * number, 2, 60)));
        events.push((at + 1500, What::Kill { part: "extender".to_owned(), on, after_polls: None }));
        events.push((at + 2500, pod(2 * number + 1, 2, 60)));
    }
    let summary = run(60 + KILLS * BETWEEN / 1000, events);
    assert_eq!((summary.placed, summary.refused), (2 * KILLS, 0));
}

/// As by a Service that selects the leader's label: the other replica is not asked.
#[test]
fn calls_reach_the_replica_that_leads() {
    let pods = (0..30).map(|number| (30_000 + number * 10_000, pod(number, 2, 5)));
    let summary = run(400, pods.collect());
    assert_eq!((summary.placed, summary.refused), (30, 0));
    assert_eq!(summary.branches.get("extender: bind while another leads").copied().unwrap_or_default(), 0);
}
