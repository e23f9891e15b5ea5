//! What becomes of a cluster of which a part is broken for long, or for good.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod common;

use serde_json::json;
use simulated_cluster::plan::{Place, What};

use crate::common::{manifest, plan, plan_of, pod, traced};

/// A pod whose container asks for so many cores and has these arguments.
fn cores(name: &str, cores: u32, args: &[&str]) -> What {
    let mut pod = manifest(1);
    pod["metadata"]["name"] = name.into();
    let main = &mut pod["spec"]["containers"][0];
    main["resources"]["limits"] = json!({"aws.amazon.com/neuroncore": cores.to_string()});
    main["args"] = json!(args);
    What::Create { pods: vec![pod] }
}

fn unreadable(hangs: bool, seconds: u32) -> What {
    What::CheckpointUnreadable { node: 0, hangs, seconds }
}

/// Four pods of four devices, of which the last, `slow`, has the last devices and starts after 200 seconds, so that nothing but kubelet's
/// checkpoint says what it has; the third is gone. Then the checkpoint cannot be read for a minute, in which kubelet writes another one.
fn named_and_not_started(hangs: bool) -> Vec<(u64, What)> {
    let mut slow = manifest(4);
    slow["metadata"]["name"] = "slow".into();
    slow["spec"]["initContainers"] =
        json!([{"name": "init", "image": "neuron-workload", "args": ["--for", "200s"]}]);
    vec![
        (60, pod("first", 4)),
        (61, pod("second", 4)),
        (62, pod("third", 4)),
        (63, What::Create { pods: vec![slow] }),
        (70, What::Delete { pod: "third".to_owned(), grace: None }),
        (110, unreadable(hangs, 60)),
        (115, pod("writes", 1)),
    ]
}

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

/// kubelet's file named a pod before it could not be read, whose container starts later: no record of a pod that has not started counts.
#[test]
fn what_kubelets_checkpoint_said_before_it_could_not_be_read_is_given_to_nobody_else() {
    for (hangs, fault) in [(false, "checkpoint not readable"), (true, "checkpoint hangs")] {
        let mut events = named_and_not_started(hangs);
        events.extend([
            (130, What::PreferencesIgnored { node: 0, seconds: 30 }),
            // kubelet, which keeps devices and cores apart, offers the last core.
            (131, cores("refused", 1, &[])),
            (200, pod("rest", 1)),
            (900, rest()),
        ]);
        let mut plan = plan(1900, events);
        plan.settings.adversarial = true;
        let (summary, lines) = traced(&plan);
        assert_eq!(summary.unknown, Vec::<String>::new(), "{fault}: {:#?}", summary.violations);
        assert_eq!((summary.faults[fault], summary.placed, summary.refused), (1, 7, 1), "{fault}");
        assert_eq!(summary.judged["refusals for: ids that are held"], 1, "{fault}");
        assert!(summary.branches["plugin: checkpoint not read"] > 0, "{fault}: {:?}", summary.branches);
        let last = "container: default/slow main starts with {24, 25, 26, 27, 28, 29, 30, 31}";
        assert!(lines.seconds_of(last) > Some(200), "{fault}: {}", lines.text());
        assert_eq!(lines.seconds_of("container: default/refused main starts"), None, "{fault}");
    }
}

/// A plugin that starts meanwhile knows nothing of the pod, and serves nothing until it can read the file.
#[test]
fn a_plugin_that_starts_while_kubelets_checkpoint_cannot_be_read_gives_nothing_away() {
    for hangs in [false, true] {
        let mut events = named_and_not_started(hangs);
        events.extend([
            (118, What::Kill { part: "plugin".to_owned(), on: Place::Node(0), after_polls: None }),
            (140, What::PreferencesIgnored { node: 0, seconds: 25 }),
            (141, cores("asks", 1, &[])),
            (200, pod("rest", 1)),
            (900, rest()),
        ]);
        let mut plan = plan(1900, events);
        plan.settings.adversarial = true;
        let (summary, lines) = traced(&plan);
        assert_eq!(summary.unknown, Vec::<String>::new(), "hangs: {hangs}: {:#?}", summary.violations);
        assert!(summary.branches["plugin: checkpoint waited for at the start"] > 0, "hangs: {hangs}");
        let last = "container: default/slow main starts with {24, 25, 26, 27, 28, 29, 30, 31}";
        assert!(lines.seconds_of(last) > Some(200), "hangs: {hangs}: {}", lines.text());
    }
}

/// A plugin that cannot see its answers written down refuses more than it must, which nobody holds against it, and no longer than that.
#[test]
fn an_answer_that_cannot_be_seen_written_down_is_held_until_it_can() {
    let events = vec![
        (60, pod("eight", 8)),
        (61, pod("four", 4)),
        (62, pod("one", 1)),
        (63, pod("another", 1)),
        (100, unreadable(false, 100)),
        (105, cores("ends", 2, &["--for=15s"])),
        (106, cores("alike", 2, &[])),
        // What the pod had that has ended, and `alike` might have got.
        (150, pod("refused", 1)),
        (300, pod("rest", 1)),
        (900, rest()),
    ];
    let (summary, lines) = traced(&plan(1900, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.placed, summary.refused), (8, 1));
    assert_eq!(summary.judged["refusals for: ids that are held"], 1);
    assert!(lines.count("a container that kubelet has not written down yet holds") > 0, "{}", lines.text());
    assert!(lines.seconds_of("container: default/rest main starts").is_some());
}

/// A kubelet that starts meanwhile has lost its books, as one has that starts with a file of no meaning.
#[test]
fn what_runs_when_kubelet_starts_and_cannot_read_its_checkpoint_is_held() {
    let kill = What::Kill { part: "kubelet".to_owned(), on: Place::Node(0), after_polls: None };
    let events = vec![
        (60, pod("runs", 4)),
        (90, unreadable(false, 60)),
        (100, kill),
        (300, pod("all", 16)),
        (301, pod("half", 8)),
        (900, rest()),
    ];
    let (summary, lines) = traced(&plan(1900, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.faults["checkpoint not readable"], summary.placed, summary.refused), (1, 2, 0));
    assert!(summary.branches["cluster: a checkpoint could not be read"] > 0, "{:?}", summary.branches);
    assert_eq!(lines.seconds_of("container: default/all main starts"), None);
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
