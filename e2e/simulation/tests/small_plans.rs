//! What a small plan comes to, as the summary and the trace tell it: pods that wait in vain, requests that arrive late, devices that
//! break twice.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod common;

use serde_json::{Value, json};
use simulated_cluster::plan::{Place, Plan, What};

use crate::common::{manifest, plan, pod, traced};

fn device(device: u32, fault: &str, seconds: Option<u32>) -> What {
    What::Device { node: 0, device, fault: fault.to_owned(), seconds }
}

fn kill_kubelet() -> What {
    What::Kill { part: "kubelet".to_owned(), on: Place::Node(0), after_polls: None }
}

#[test]
fn a_pod_that_waits_in_vain_is_judged_at_a_rest_and_given_up_after_an_hour() {
    let rest = What::Rest { seconds: 900 };
    let plan = plan(7200, vec![(300, pod("all", 16)), (600, pod("waits", 16)), (2400, rest)]);
    let (summary, lines) = traced(&plan);
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    let given_up = lines.seconds_of("DELETE /api/v1/namespaces/default/pods/waits").unwrap();
    assert!((70 * 60..71 * 60).contains(&given_up), "given up after {given_up} s");
    assert!(summary.judged["waiting pods"] > 0);
    assert_eq!(lines.seconds_of("DELETE /api/v1/namespaces/default/pods/all"), None);
}

#[test]
fn what_runs_on_after_kubelet_has_lost_its_books_is_held_and_reported() {
    let events = vec![
        (60, pod("runs", 4)),
        (90, What::CheckpointGarbled { node: 0 }),
        (91, kill_kubelet()),
        (300, pod("all", 16)),
        (600, pod("rest", 8)),
        (2400, What::Rest { seconds: 900 }),
    ];
    let (summary, lines) = traced(&plan(3400, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.faults["checkpoint garbled"], summary.placed, summary.refused), (1, 2, 0));
    assert!(lines.seconds_of("container: default/rest main starts").is_some());
    assert_eq!(lines.seconds_of("container: default/all main starts"), None);
    // What is free of a node whose kubelet does not name all is not known.
    assert_eq!(summary.judged.get("waiting pods"), None);
    assert!(summary.judged["waiting pods for which no node could be judged"] > 0);
}

#[test]
fn a_binding_may_arrive_long_after_the_extender_gave_it_up() {
    let (from, to) = (Place::Control, Place::ApiServer);
    let cut = What::Cut { from, to, both: false, reset: false, seconds: 30 };
    let (summary, lines) = traced(&plan(300, vec![(59, cut), (60, pod("late", 4))]));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    // Of all requests a Binding alone says how long it may take, which begins when it arrives.
    let arrived = lines.seconds_of("ms -> arrives after its sender has given up").unwrap();
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

#[test]
fn a_container_that_fails_and_starts_again_keeps_its_devices() {
    let mut fails = manifest(4);
    fails["metadata"]["name"] = "fails".into();
    fails["spec"]["restartPolicy"] = "Always".into();
    fails["spec"]["containers"][0]["args"] = json!(["--for", "30s", "--exit=1"]);
    let events = vec![
        (60, What::Create { pods: vec![fails] }),
        (300, pod("all", 16)),
        (600, pod("rest", 8)),
        (2400, What::Rest { seconds: 900 }),
    ];
    let (summary, lines) = traced(&plan(3400, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert!(lines.count("container: default/fails main starts with") > 5);
    assert_eq!((summary.placed, lines.count("container: default/all main starts")), (2, 0));
}

#[test]
fn what_kubelet_gives_in_place_of_what_it_was_advised_is_recorded() {
    let events = vec![
        (30, What::PreferencesIgnored { node: 0, seconds: 60 }),
        (60, pod("others", 1)),
        // Which four kubelet takes is no linked set.
        (61, pod("refused", 4)),
        (300, pod("rest", 8)),
        (2400, What::Rest { seconds: 900 }),
    ];
    let (summary, lines) = traced(&plan(3400, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.faults["preferences ignored"], summary.placed, summary.refused), (1, 3, 1));
    assert_eq!(summary.judged["refusals for: no linked set"], 1);
    assert!(summary.branches["plugin: record corrected"] > 0);
    assert!(lines.seconds_of("container: default/rest main starts").is_some());
}

/// A pod whose container begins again every ten minutes, beside one that runs on.
fn begins_again(name: &str, devices: [u32; 2]) -> What {
    let mut pod = manifest(devices[0]);
    let mut other = manifest(devices[1])["spec"]["containers"][0].clone();
    other["name"] = "again".into();
    other["args"] = json!(["--for", "600s"]);
    pod["metadata"]["name"] = name.into();
    pod["spec"]["restartPolicy"] = "Always".into();
    pod["spec"]["containers"].as_array_mut().unwrap().push(other);
    What::Create { pods: vec![pod] }
}

#[test]
fn a_container_that_starts_again_after_kubelet_has_lost_its_books_is_given_its_devices_again() {
    let events = vec![
        (60, begins_again("p", [8, 8])),
        (90, What::CheckpointGarbled { node: 0 }),
        (91, kill_kubelet()),
        (2400, What::Rest { seconds: 900 }),
    ];
    let (summary, lines) = traced(&plan(3400, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert!(summary.branches["cluster: devices were allocated as their container started"] > 0);
    assert_eq!(lines.count("container: default/p again starts with {}"), 0);
    assert!(lines.count("container: default/p again starts with {") > 2);
    assert_eq!((summary.placed, summary.refused), (1, 0));
}

#[test]
fn a_record_follows_what_starts_again_though_kubelet_names_not_all_of_the_pod() {
    let events = vec![
        (60, begins_again("p", [1, 1])),
        (90, What::CheckpointGarbled { node: 0 }),
        (91, kill_kubelet()),
        (630, What::PreferencesIgnored { node: 0, seconds: 120 }),
        (2400, What::Rest { seconds: 900 }),
    ];
    let (summary, _) = traced(&plan(3400, events));
    // At the rest the record must say what every container has.
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert!(summary.branches["plugin: record corrected"] > 0);
    assert_eq!((summary.faults["preferences ignored"], summary.refused), (1, 0));
}

/// Polls that a part had, by its kill that never comes.
fn polls(of: &str, plan: Plan) -> u64 {
    const NEVER: u64 = 999_999_999;
    let (summary, _) = traced(&Plan { kills: vec![(of.to_owned(), NEVER)], ..plan });
    let missed = format!("{of} was not killed before its poll {NEVER}: it had ");
    summary.missed_kills[0]
        .strip_prefix(&missed)
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .unwrap()
}

#[test]
fn nothing_of_a_program_that_was_killed_is_polled() {
    for (part, on, of) in [("extender", Place::Control, "extender"), ("plugin", Place::Node(0), "plugin/n1")]
    {
        let until = |seconds| {
            let goes = What::Away { part: part.to_owned(), on, seconds: None };
            plan(seconds, vec![(60, pod("a", 4)), (100, pod("b", 4)), (100, goes), (150, pod("c", 4))])
        };
        let then = polls(of, until(101));
        assert!(then > 10, "{of} had {then} polls");
        assert_eq!(polls(of, until(500)), then, "{of}");
    }
}

/// Lines of a part between its kill and its next start, but for requests that were on their way when it was killed; and its kills.
fn after_kills<'a>(trace: &'a str, of: &str) -> (Vec<&'a str>, usize) {
    let (mut lines, mut kills, mut is_gone, mut on_their_way) = (Vec::new(), 0, false, Vec::new());
    for line in trace.lines() {
        // `0d 01:02:03.004 part: what`, or `part| what` of a line of its log
        let own = line.splitn(3, ' ').nth(2).and_then(|rest| rest.strip_prefix(of));
        let Some(what) = own.and_then(|rest| rest.strip_prefix([':', '|'])) else { continue };
        let request = what.split_once(" -> ");
        if what == " is killed" {
            (is_gone, kills) = (true, kills + 1);
        } else if what.starts_with(" starts on ") {
            is_gone = false;
            on_their_way.clear();
        } else if let Some((request, "arrives after its sender has given up")) = request {
            on_their_way.push(request);
        } else if is_gone && !request.is_some_and(|(request, _)| on_their_way.contains(&request)) {
            lines.push(line);
        }
    }
    (lines, kills)
}

#[test]
fn a_program_that_was_killed_amid_its_work_says_asks_and_decides_nothing_until_it_starts_again() {
    let kill = |part: &str, on, polls| What::Kill { part: part.to_owned(), on, after_polls: Some(polls) };
    let rounds = (0..8u64).flat_map(|round| {
        let at = 100 + 300 * round;
        let polls = 1 + 4 * round;
        [
            (at, kill("extender", Place::Control, polls)),
            (at, kill("plugin", Place::Node(0), polls)),
            (at, pod(&format!("p{round}"), 1)),
        ]
    });
    let mut plan = plan(3000, rounds.chain([(2550, What::Rest { seconds: 400 })]).collect());
    // What is killed is gone for a minute and a half.
    plan.settings.restart_milliseconds = (90_000, 90_000);
    let (summary, lines) = traced(&plan);
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    let trace = lines.text();
    for of in ["extender", "plugin/n1"] {
        assert_eq!(after_kills(&trace, of), (Vec::new(), 8), "{of}");
    }
    assert!(summary.placed > 0);
}

#[test]
fn kubelet_forgets_the_ids_of_an_allocate_that_waits_when_a_monitor_asks_after_another_pod_has_ended() {
    let mut events = Vec::new();
    let short = |name: &str, devices: u32, args: Value| {
        let mut pod = manifest(devices);
        pod["metadata"]["name"] = name.into();
        pod["spec"]["terminationGracePeriodSeconds"] = 6.into();
        pod["spec"]["containers"][0]["args"] = args;
        What::Create { pods: vec![pod] }
    };
    // One pod in four takes all its grace.
    let names: Vec<String> = (0..12).map(|number| format!("gone{number}")).collect();
    events.extend(names.iter().map(|name| (60, short(name, 1, json!([])))));
    events.push((60, short("ends", 4, json!(["--for=242s"]))));
    events.extend(names.iter().map(|name| (300, What::Delete { pod: name.clone(), grace: Some(0) })));
    events.push((301, pod("waits", 8)));
    events.extend((302..309).map(|second| (second, What::ForeignList { node: 0 })));
    events.push((1200, What::Rest { seconds: 900 }));
    let mut plan = plan(2200, events);
    plan.settings.programs.insert("handoverLimit".to_owned(), 8000);
    let (summary, lines) = traced(&plan);
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert!(summary.branches["cluster: kubelet forgot the ids of an open Allocate"] > 0, "{}", lines.text());
    assert!(lines.seconds_of("container: default/waits main starts").is_some());
}

#[test]
fn what_could_not_be_judged_of_pods_that_wait_is_counted() {
    let asking = |devices: u32| manifest(devices)["spec"]["containers"][0].clone();
    let named = |mut container: Value, name: &str| {
        container["name"] = name.into();
        container
    };
    // Which seven of eight are left to the second container is not known.
    let mut open = manifest(1);
    open["metadata"]["name"] = "open".into();
    open["spec"]["initContainers"] = json!([named(asking(8), "init")]);
    open["spec"]["containers"] = json!([named(asking(1), "a"), named(asking(8), "b")]);
    let events = vec![(60, What::Create { pods: vec![open] }), (900, What::Rest { seconds: 900 })];
    let (summary, _) = traced(&plan(1900, events));
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    let judged = |what: &str| summary.judged.get(what).copied().unwrap_or_default();
    assert!(judged("searches for a node of a waiting pod that were given up") > 0, "{:?}", summary.judged);
    assert!(judged("waiting pods for which no node could be judged") > 0, "{:?}", summary.judged);
    assert_eq!(judged("waiting pods"), 0);
}
