//! What becomes of a cluster of which a part is broken for long, or for good.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod common;

use serde_json::json;
use simulated_cluster::plan::{Place, What};

use crate::common::{manifest, plan, plan_of, pod, traced};

fn rest() -> What {
    What::Rest { seconds: 900 }
}

#[test]
fn what_a_kubelet_gives_that_cannot_write_its_checkpoint_is_refused_and_free_again() {
    let events = vec![
        (60, pod("runs", 4)),
        (90, What::CheckpointUnwritable { node: 0, seconds: 60 }),
        (100, pod("refused", 4)),
        (200, pod("rest", 8)),
        (900, rest()),
    ];
    let (summary, lines) = traced(&plan(1900, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!(summary.faults["checkpoint not writable"], 1);
    assert_eq!((summary.placed, summary.refused), (3, 1));
    assert_eq!(summary.judged["refusals for: checkpoint not written"], 1);
    assert_eq!(lines.seconds_of("container: default/refused main starts"), None);
    assert!(lines.seconds_of("container: default/rest main starts").is_some());
}

#[test]
fn the_other_replica_places_when_one_is_gone_for_good() {
    let extender = || "extender".to_owned();
    let events = vec![
        (60, pod("before", 4)),
        (100, What::Away { part: extender(), on: Place::SecondControl, seconds: None }),
        (200, pod("after", 4)),
        (300, What::Kill { part: extender(), on: Place::Control, after_polls: None }),
        (400, pod("last", 8)),
        (900, rest()),
    ];
    let mut plan = plan(1900, events);
    plan.settings.programs.insert("leaseSeconds".to_owned(), 5);
    let (summary, lines) = traced(&plan);
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.faults["away extender for good"], summary.placed), (1, 3));
    assert_eq!(lines.count("extender/control-2: starts on "), 1);
}

#[test]
fn the_pods_of_a_node_that_is_lost_for_good_wait_until_its_machine_is_replaced() {
    let events = vec![
        (60, What::PowerLoss { node: 2, seconds: None }),
        (300, pod("one", 16)),
        (301, pod("two", 16)),
        (302, pod("three", 16)),
        (900, rest()),
        (1900, What::ReplaceNode { node: 2, seconds: 10 }),
        (2600, rest()),
    ];
    let (summary, lines) = traced(&plan_of(3, 3600, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.faults["power loss for good"], summary.placed), (1, 3));
    assert_eq!(summary.judged["nodes at rest that were not ready"], 1);
    assert!(summary.judged["waiting pods"] > 0);
    assert!(lines.seconds_of("kubelet/n3: Allocate ").unwrap() > 1900);
}

#[test]
fn a_pod_that_waits_is_held_against_the_nodes_of_which_nothing_changes() {
    let mut events = vec![(60, pod("stays", 16))];
    // On the other node one follows the other, all through the rest.
    events.extend((0..30).map(|number| {
        let mut short = manifest(16);
        short["metadata"]["name"] = format!("short{number}").into();
        short["spec"]["containers"][0]["args"] = json!(["--for=60s"]);
        (120 + number, What::Create { pods: vec![short] })
    }));
    events.push((900, rest()));
    let (summary, _) = traced(&plan_of(2, 1900, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert!(summary.judged["waiting pods"] > 50, "{:?}", summary.judged);
    assert_eq!(summary.judged.get("texts"), None);
}
