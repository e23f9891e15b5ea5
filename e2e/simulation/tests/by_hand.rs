//! What goes wrong with a whole machine, what people edit by hand, and programs that are asked to end: what small plans come to.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::time::Duration;

use neuron_e2e_simulation::{Neuron, known, reached, run_plan};
use serde_json::{Value, json};
use simulated_cluster::plan::{Event, Place, Plan, What};
use simulated_cluster::profile::Profile;
use simulated_cluster::{RunOptions, Seeded, Summary};

/// Runs a plan for one machine, in which this happens, each at its second, with a rest at the end.
fn run(machine: &str, events: Vec<(u64, What)>) -> Summary {
    run_on(&[machine], events)
}

/// As [`run`], for several machines.
fn run_on(machines: &[&str], mut events: Vec<(u64, What)>) -> Summary {
    let plan = Seeded::new(1, Profile::Calm, machines.iter().copied(), Duration::from_secs(3400))
        .plan(&Neuron::default());
    events.push((2400, What::Rest { seconds: 900 }));
    let events = events.into_iter().map(|(second, what)| Event { at: second * 1000, what });
    let plan = Plan { events: events.collect(), ..plan };
    // As a file says it.
    let plan = Plan::parse(&plan.to_text()).unwrap();
    let summary = run_plan(&plan, RunOptions { known: known().unwrap(), ..RunOptions::default() }).unwrap();
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    summary
}

/// A pod that asks for so many cores and does not end.
fn pod(name: &str, cores: u32) -> What {
    let limits = json!({"aws.amazon.com/neuroncore": cores.to_string()});
    let main = json!({"name": "main", "image": "neuron-workload", "resources": {"limits": limits}});
    let spec = json!({"containers": [main], "restartPolicy": "Never", "schedulerName": "my-scheduler"});
    What::Create {
        pods: vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})],
    }
}

fn machine(fault: &str, seconds: u32) -> What {
    What::Machine { node: 0, fault: fault.to_owned(), seconds }
}

fn edit(pod: &str, what: &str) -> What {
    What::EditPod { pod: pod.to_owned(), what: what.to_owned() }
}

fn kill_plugin() -> What {
    What::Kill { part: "plugin".to_owned(), on: Place::Node(0), after_polls: None }
}

#[test]
fn what_broke_while_there_was_no_driver_is_broken_when_it_is_back() {
    let broken = What::Device { node: 0, device: 3, fault: "lost".to_owned(), seconds: None };
    for fault in ["driver gone", "driver gone, nodes stay"] {
        let events = vec![
            (60, pod("before", 2)),
            (90, machine(fault, 300)),
            (120, broken.clone()),
            (150, kill_plugin()),
            (180, pod("waits", 2)),
            (600, pod("all", 32)),
        ];
        let summary = run("trn1.32xlarge", events);
        assert_eq!((summary.placed, summary.faults[&format!("machine: {fault}")]), (2, 1), "{fault}");
    }
}

#[test]
fn an_lnc_that_is_edited_while_cores_are_held_changes_nothing() {
    let events = vec![
        (60, pod("holds", 2)),
        (90, machine("LNC edited", 300)),
        (120, kill_plugin()),
        (180, pod("next", 2)),
    ];
    let summary = run("trn2.48xlarge", events);
    assert_eq!((summary.placed, summary.refused), (2, 0));
    assert!(summary.branches["plugin: LNC held"] > 0);
}

#[test]
fn a_record_that_is_edited_is_put_right_where_there_is_one() {
    let events = vec![
        (60, pod("garbled", 2)),
        (61, pod("wrong", 2)),
        (62, pod("removed", 2)),
        (120, edit("garbled", "record garbled")),
        (120, edit("wrong", "record wrong")),
        (120, edit("removed", "record removed")),
        (300, pod("fits", 8)),
        (301, pod("all", 32)),
    ];
    let summary = run("trn1.32xlarge", events);
    assert_eq!((summary.placed, summary.refused), (4, 0));
    assert_eq!(summary.branches["plugin: record corrected"], 2);
}

#[test]
fn programs_that_are_asked_to_end_do_so_and_are_started_again() {
    let stop = |part: &str, on| What::Stop { part: part.to_owned(), on };
    let events = vec![
        (60, pod("before", 2)),
        (90, stop("plugin", Place::Node(0))),
        (91, stop("extender", Place::Control)),
        (120, pod("after", 2)),
    ];
    let summary = run("trn1.32xlarge", events);
    assert_eq!((summary.placed, summary.kills, summary.restarts), (2, 0, 2));
}

#[test]
fn a_plugin_whose_sockets_are_reset_is_offered_again_and_a_checkpoint_that_is_older_hides_no_holder() {
    let events = vec![
        (60, pod("before", 2)),
        (90, What::SocketsReset { node: 0 }),
        (120, What::CheckpointOlder { node: 0, seconds: 60 }),
        (130, pod("unwritten", 2)),
        (140, kill_plugin()),
        (200, pod("half", 16)),
        (201, pod("quarter", 8)),
    ];
    let summary = run("trn1.32xlarge", events);
    assert_eq!((summary.placed, summary.refused), (4, 0));
    assert_eq!((summary.faults["sockets reset"], summary.faults["checkpoint older"]), (1, 1));
}

#[test]
fn a_second_extender_that_sees_nothing_does_no_harm() {
    let cut =
        What::Cut { from: Place::SecondControl, to: Place::ApiServer, both: true, reset: true, seconds: 200 };
    let second = What::Second { part: "extender".to_owned(), on: Place::Control, seconds: 240 };
    let mut events = vec![(60, second), (100, cut)];
    events.extend((0..4u8).map(|number| (110 + u64::from(number) * 20, pod(&format!("p{number}"), 8))));
    let summary = run("trn1.32xlarge", events);
    assert_eq!((summary.placed, summary.faults["cut with reset"]), (4, 1));
}

#[test]
fn what_only_a_record_says_of_a_container_is_no_wrong_text() {
    let asks = |name: &str, resource: &str, count: &str| {
        let limits = json!({format!("aws.amazon.com/{resource}"): count});
        json!({"name": name, "image": "neuron-workload", "resources": {"limits": limits}})
    };
    let made = |name: &str, inits: &[Value], app: Value| {
        let spec = json!({"initContainers": inits, "containers": [app], "schedulerName": "my-scheduler"});
        What::Create {
            pods: vec![json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})],
        }
    };
    let mut init = asks("init", "neuron", "1");
    init["args"] = json!(["--for", "1s"]);
    let events = vec![
        (60, made("forgotten", &[init], asks("main", "neuroncore", "1"))),
        // The new machine's kubelet knows nothing of it, and starts its init container without asking the plugin.
        (120, What::ReplaceNode { node: 0, seconds: 7 }),
        (300, made("half", &[], asks("main", "neuron", "8"))),
        // kube-scheduler counts cores and devices apart: the extender says that not so many cores are free.
        (320, made("waits", &[], asks("main", "neuroncore", "16"))),
    ];
    let summary = run("trn1.32xlarge", events);
    assert_eq!(summary.placed, 2);
    assert!(summary.judged["texts of kubelets that have forgotten a container"] > 0, "{:#?}", summary.judged);
}

/// Seed 80253: neither the record nor the file says what the pod has, and kubelet writes no other.
#[test]
fn nobody_is_blamed_for_a_record_that_is_edited_beside_an_older_checkpoint() {
    let events = vec![
        (90, What::CheckpointOlder { node: 0, seconds: 60 }),
        (100, pod("all", 32)),
        (200, edit("all", "record garbled")),
    ];
    let summary = run("trn1.32xlarge", events);
    assert_eq!((summary.placed, summary.faults["checkpoint older"]), (1, 1));
}

/// Seed 760083: of two equal pods kubelet admitted the second first, and its file lost what it had given both.
#[test]
fn a_record_is_not_judged_of_a_pod_that_an_older_checkpoint_does_not_name() {
    let frozen = What::Freeze { part: "kubelet".to_owned(), on: Place::Node(0), seconds: 30 };
    let events = vec![
        (60, pod("before", 2)),
        (90, frozen),
        (100, pod("first", 8)),
        (101, pod("second", 8)),
        (110, What::CheckpointOlder { node: 0, seconds: 300 }),
    ];
    let summary = run("trn1.32xlarge", events);
    assert_eq!((summary.placed, summary.faults["checkpoint older"]), (3, 1));
    assert_eq!(summary.judged["pods of which kubelet's file names not all"], 2);
}

/// docs/reference/kubernetes.md §7: kubelet tells once, five minutes after a plugin's end, that its devices are gone. Where that is not
/// written it offers them all, until it starts again.
#[test]
fn a_node_that_offers_the_devices_of_a_plugin_long_gone_is_given_no_pod_until_the_plugin_is_back() {
    let events = vec![
        // All of the other node, whose plugin's Lease tells that those of others would be seen.
        (40, pod("elsewhere", 24)),
        (60, pod("before", 2)),
        (90, What::Away { part: "plugin".to_owned(), on: Place::Node(0), seconds: Some(900) }),
        (385, What::ApiDown { seconds: 30 }),
        (600, pod("too-early", 2)),
        (900, What::Delete { pod: "too-early".to_owned(), grace: None }),
        (1100, pod("after", 2)),
    ];
    let summary = run_on(&["trn1.32xlarge", "inf2.48xlarge"], events);
    let offered = "cluster: devices of a plugin long gone are allocatable";
    let reached = reached(std::slice::from_ref(&summary));
    assert!(reached.get(offered).copied() > Some(0), "{:?}", summary.branches);
    assert_eq!((summary.created, summary.placed, summary.refused), (4, 3, 0));
}

/// As `kubectl delete --force` of a pod that its StatefulSet makes anew under its name at once, while the old one is being killed.
#[test]
fn a_pod_made_anew_under_its_name_gets_its_device_when_the_old_one_has_let_go() {
    let limits = json!({"aws.amazon.com/neuron": "1"});
    let main = json!({"name": "main", "image": "neuron-workload", "resources": {"limits": limits}});
    let spec =
        json!({"containers": [main], "schedulerName": "my-scheduler", "terminationGracePeriodSeconds": 4});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec});
    let mut events = vec![(60, What::StatefulSet { name: "set".to_owned(), pod, replicas: 1 })];
    // One container in four takes all of its grace.
    events.extend((0..24).map(|number| {
        let grace = (number % 3 > 0).then_some(0);
        (120 + 60 * number, What::Delete { pod: "set-0".to_owned(), grace })
    }));
    let summary = run("trn1.2xlarge", events);
    assert_eq!((summary.placed, summary.refused), (25, 0));
    for place in ["cluster: a container takes all of its grace", "plugin: waits for a process of a gone pod"]
    {
        assert!(summary.branches.get(place) > Some(&0), "{place}: {:?}", summary.branches);
    }
}
