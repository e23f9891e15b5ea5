//! Who holds what on a node: when a record counts, which of two wins, and what the report decides.

mod properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::holders::{Holding, NodeFacts, Settled, Source, record_counts, settle};
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::record::Recorded;
use neuron_core::report::{DeviceReport, Health, HolderReport, NodeReport, Reported};
use neuron_core::topology::{Policy, Topology};
use rstest::rstest;
use serde_json::{Value, json};

/// Six devices in a row, two cores each.
const TYPE: &str = "inf2.24xlarge";

fn topology() -> Arc<Topology> {
    Arc::new(Topology::of(Catalog::embedded().find(TYPE).unwrap(), 1, Policy::Documented).unwrap())
}

/// A pod whose container `main` asks for `cores` cores and `devices` devices.
fn pod(uid: &str, devices: u32, cores: u32, annotations: &[(&str, &str)]) -> BoundPod {
    let limits = json!({ "aws.amazon.com/neuron": devices, "aws.amazon.com/neuroncore": cores });
    pod_of(uid, json!({ "containers": [{ "name": "main", "resources": { "limits": limits } }] }), annotations)
}

fn pod_of(uid: &str, spec: Value, annotations: &[(&str, &str)]) -> BoundPod {
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let annotations: BTreeMap<_, _> =
        annotations.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    BoundPod::new("ns", uid, uid, annotations, &spec, None)
}

fn record(containers: &str) -> String {
    format!(r#"{{"v":1,"node":"n1","lnc":1,"containers":{containers}}}"#)
}

fn with_cores(uid: &str, cores: &str) -> BoundPod {
    let count = cores.split(',').count() as u32;
    let value = record(&format!(r#"{{"main":{{"cores":[{cores}]}}}}"#));
    pod(uid, 0, count, &[("neuron-scheduler/allocation", &value)])
}

fn at(time: &str, pod: BoundPod) -> BoundPod {
    BoundPod { scheduled_at: Some(time.parse().unwrap()), ..pod }
}

fn report(holders: &[(&str, &str)]) -> NodeReport {
    let device = |id| DeviceReport { id, links: Default::default(), health: Health::Healthy, reason: None };
    let holder = |&(uid, cores): &(&str, &str)| HolderReport {
        pod: format!("ns/{uid}"),
        uid: uid.to_owned(),
        cores: cores.parse().unwrap(),
    };
    NodeReport {
        v: 1,
        time: None,
        rules: None,
        instance_type: TYPE.to_owned(),
        lnc: 1,
        cores_per_device: None,
        devices: (0..6).map(device).collect(),
        holders: holders.iter().map(holder).collect(),
    }
}

fn settled(pods: &[BoundPod], report: Option<&NodeReport>) -> Settled {
    let reported = report.map(Reported::from);
    settle(&NodeFacts { name: "n1", topology: topology(), report: reported.as_ref(), pods })
}

/// `uid cores source` of each holding, then the unknown holders, those that share, then the ignored records and why.
fn summary(settled: &Settled) -> String {
    let mut lines: Vec<String> = settled
        .holdings
        .iter()
        .map(|holding| format!("{} {} {:?}", holding.uid(), holding.cores, holding.source))
        .collect();
    lines.sort();
    lines.extend(settled.unknown.iter().map(|holder| format!("{} unknown", holder.uid)));
    lines.extend(settled.shared.iter().map(|it| format!("{} shares {} with {}", it.uid, it.cores, it.with)));
    let start = "The pod's Neuron allocation record does not count: ";
    lines.extend(
        settled.ignored.iter().map(|it| format!("{}: {}", it.uid, it.reason.strip_prefix(start).unwrap())),
    );
    lines.join("\n")
}

/// The extender keeps one of each for every pod with devices, of which a cluster has tens of thousands.
#[test]
fn what_is_kept_of_a_holder_is_small() {
    assert!(size_of::<BoundPod>() <= 136, "{}", size_of::<BoundPod>());
    assert!(size_of::<Holding<Arc<BoundPod>>>() <= 48, "{}", size_of::<Holding<Arc<BoundPod>>>());
    let pod = with_cores("a", "0,1");
    let Ok(Some(Recorded::Ours(record))) = &pod.record else { panic!("it has a record") };
    let asks = &pod.request.as_ref().unwrap().containers[0];
    assert!(record.containers.keys().all(|name| Arc::ptr_eq(name, &asks.name)), "the name is in memory once");
}

#[test]
fn records_hold_and_ended_pods_do_not() {
    let mut ended = with_cores("c", "4,5");
    ended.terminal = true;
    let pods = [with_cores("a", "0,1"), pod("plain", 0, 0, &[]), ended];
    let settled = settled(&pods, None);
    assert_eq!(summary(&settled), "a 0,1 Record");
    assert_eq!(settled.occupancy.held().to_string(), "0,1");
    assert_eq!(settled.holdings[0].full_name(), "ns/a");
}

#[test]
fn a_device_record_holds_the_devices_cores() {
    let value = record(r#"{"main":{"devices":[2,1],"cores":[0]}}"#);
    let settled = settled(&[pod("a", 2, 1, &[("neuron-scheduler/allocation", &value)])], None);
    assert_eq!(summary(&settled), "a 0,2,3,4,5 Record");
}

#[rstest]
#[case::garbage(
    "{",
    "annotation neuron-scheduler/allocation cannot be read: EOF while parsing an object at line 1 column 1; recreate the pod"
)]
#[case::node(
    r#"{"v":1,"node":"n2","lnc":1,"containers":{"main":{"cores":[0,1]}}}"#,
    "it names node n2, the pod runs on n1; recreate the pod"
)]
#[case::lnc(
    r#"{"v":1,"node":"n1","lnc":2,"containers":{"main":{"cores":[0,1]}}}"#,
    "its core ids are for LNC 2, the node runs with LNC 1; recreate the pod"
)]
#[case::more(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[0,1,2]}}}"#,
    "it gives container main 3 core(s), the container asks for 2; recreate the pod"
)]
#[case::other_name(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"devices":[0]}}}"#,
    "it gives container main 1 device(s), the container asks for 0; recreate the pod"
)]
#[case::other_container(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[0,1]},"x":{"cores":[2]}}}"#,
    "it gives container x 1 core(s), the container asks for 0; recreate the pod"
)]
#[case::beyond(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[11,12]}}}"#,
    "it names core 12, the node has core 0 to 11; recreate the pod"
)]
fn a_record_that_does_not_count_is_never_silently_free(#[case] value: &str, #[case] why: &str) {
    let pods = [pod("a", 0, 2, &[("neuron-scheduler/allocation", value)])];
    assert_eq!(summary(&settled(&pods, None)), format!("a unknown\na: {why}"));
    // Once the plugin says what the pod got, the node is no longer blocked.
    assert_eq!(summary(&settled(&pods, Some(&report(&[("a", "8,9")])))), format!("a 8,9 Report\na: {why}"));
}

#[test]
fn containers_that_run_together_share_nothing() {
    let one =
        |name: &str| json!({ "name": name, "resources": { "limits": { "aws.amazon.com/neuroncore": 1 } } });
    let spec = json!({ "initContainers": [one("prepare")], "containers": [one("main"), one("side")] });
    let why = |containers: &str| {
        let pod = pod_of("a", spec.clone(), &[("neuron-scheduler/allocation", &record(containers))]);
        record_counts(&pod, "n1", &topology()).map(|counts| counts.is_some()).map_err(|why| why.to_string())
    };
    // An init container has ended when the others start.
    assert_eq!(why(r#"{"prepare":{"cores":[0]},"main":{"cores":[0]},"side":{"cores":[1]}}"#), Ok(true));
    assert_eq!(
        why(r#"{"prepare":{"cores":[0]},"main":{"cores":[1]},"side":{"cores":[1]}}"#),
        Err("it gives container side core(s) 1, which at the same time it gives out under the other name \
             or to another container; recreate the pod"
            .to_owned())
    );
    let both = record(r#"{"main":{"devices":[1],"cores":[3]}}"#);
    let pod = pod("a", 1, 1, &[("neuron-scheduler/allocation", &both)]);
    assert!(
        record_counts(&pod, "n1", &topology())
            .unwrap_err()
            .to_string()
            .starts_with("it gives container main core(s) 3, ")
    );
}

#[test]
fn a_forged_record_on_a_pod_that_asks_for_nothing_holds_nothing() {
    let value = record(r#"{"main":{"cores":[0,1]}}"#);
    let settled = settled(&[pod("a", 0, 0, &[("neuron-scheduler/allocation", &value)])], None);
    assert_eq!(summary(&settled), "a: the pod asks for no Neuron device or core; remove the annotation");
}

#[test]
fn a_pod_without_a_record_holds_an_unknown_set_until_the_report_names_it() {
    let pods = [pod("a", 1, 0, &[])];
    assert_eq!(summary(&settled(&pods, None)), "a unknown");
    assert_eq!(summary(&settled(&pods, Some(&report(&[("b", "0,1")])))), "a unknown");
    let known = settled(&pods, Some(&report(&[("a", "2,3")])));
    assert_eq!(summary(&known), "a 2,3 Report");
    assert_eq!(known.holdings[0].allocation, None);
    assert_eq!(known.holdings[0].source, Source::Report);
}

#[test]
fn a_request_that_cannot_be_read_is_never_silently_free() {
    let pods = [pod_of(
        "a",
        json!({ "containers": [{ "name": "main", "resources": { "limits": { "aws.amazon.com/neuron": "0.5" } } }] }),
        &[],
    )];
    assert_eq!(
        summary(&settled(&pods, None)),
        "a unknown\na: Container main asks for aws.amazon.com/neuron: 0.5 is not whole; use a whole number"
    );
}

#[rstest]
#[case::earliest(&[("a", "2026-01-01T00:00:02Z"), ("b", "2026-01-01T00:00:01Z")], "b")]
#[case::lowest_uid(&[("b", "2026-01-01T00:00:01Z"), ("a", "2026-01-01T00:00:01Z")], "a")]
#[case::without_a_time_comes_last(&[("a", ""), ("b", "2026-01-01T00:00:01Z")], "b")]
#[case::uid_without_times(&[("b", ""), ("a", "")], "a")]
fn of_overlapping_records_one_counts(#[case] pods: &[(&str, &str)], #[case] first: &str) {
    let bound = |&(uid, time): &(&str, &str)| {
        let pod = with_cores(uid, if uid == "a" { "0,1" } else { "1,2" });
        if time.is_empty() { pod } else { at(time, pod) }
    };
    let settled = settled(&pods.iter().map(bound).collect::<Vec<_>>(), None);
    let (cores, second) = if first == "a" { ("0,1", "b") } else { ("1,2", "a") };
    assert_eq!(
        summary(&settled),
        format!(
            "{first} {cores} Record\n{second} unknown\n\
             {second}: core(s) 1 are held by pod ns/{first}, which comes first; recreate this pod"
        )
    );
}

#[test]
fn the_report_decides_between_overlapping_records() {
    let pods = [
        at("2026-01-01T00:00:01Z", with_cores("a", "0,1")),
        at("2026-01-01T00:00:02Z", with_cores("b", "1,2")),
    ];
    assert_eq!(
        summary(&settled(&pods, Some(&report(&[("b", "1,2")])))),
        "b 1,2 ConfirmedRecord\na unknown\na: core(s) 1 are held by pod ns/b, which comes first; recreate this pod"
    );
}

#[test]
fn a_swapped_pod_holds_what_kubelet_gave_it() {
    let pods = [with_cores("a", "0,1"), with_cores("b", "2,3")];
    let settled = settled(&pods, Some(&report(&[("a", "2,3"), ("b", "0,1")])));
    assert_eq!(
        summary(&settled),
        "a 2,3 Report\nb 0,1 Report\n\
         a: it says core(s) 0,1, kubelet gave the pod core(s) 2,3, which is what counts\n\
         b: it says core(s) 2,3, kubelet gave the pod core(s) 0,1, which is what counts"
    );
    assert_eq!(settled.occupancy.held().to_string(), "0,1,2,3");
}

#[test]
fn a_pod_that_kubelet_has_given_a_part_holds_the_rest_of_its_record_too() {
    let value = record(r#"{"first":{"cores":[0]},"second":{"cores":[1,2,3]}}"#);
    let asks = |name, cores| json!({ "name": name, "resources": { "limits": { "aws.amazon.com/neuroncore": cores } } });
    let spec = json!({ "containers": [asks("first", 1), asks("second", 3)] });
    let pods = [pod_of("a", spec, &[("neuron-scheduler/allocation", &value)])];
    // kubelet admits one container after another, and has given the first one another core than recorded.
    let settled = settled(&pods, Some(&report(&[("a", "5")])));
    assert_eq!(settled.occupancy.held().to_string(), "0,1,2,3,5");
}

#[test]
fn less_than_the_record_confirms_it() {
    // The report leaves out what an ended init container had; its cores stay held.
    let settled = settled(&[with_cores("a", "0,1,2,3")], Some(&report(&[("a", "2,3")])));
    assert_eq!(summary(&settled), "a 0,1,2,3 ConfirmedRecord");
}

#[test]
fn a_reported_holder_that_is_gone_or_ended_holds_nothing() {
    let mut ended = with_cores("a", "0,1");
    ended.terminal = true;
    let settled = settled(&[ended], Some(&report(&[("a", "0,1"), ("gone", "2,3")])));
    assert_eq!(summary(&settled), "");
    assert!(settled.occupancy.held().is_empty());
}

#[test]
fn unhealthy_and_missing_devices_are_not_free() {
    let mut lost = report(&[]);
    lost.devices[2].health = Health::Unhealthy;
    lost.devices.pop();
    assert_eq!(settled(&[], Some(&lost)).occupancy.unhealthy().to_string(), "2,5");
    assert!(settled(&[], None).occupancy.unhealthy().is_empty());
}

#[test]
fn pods_of_aws_extension_hold_too() {
    let cores = |uid, ids| {
        pod(uid, 0, 2, &[("AWS_NEURON_IDS", ids), ("NEURON_RESOURCE_TYPE", "aws.amazon.com/neuroncore")])
    };
    let pods = [pod("a", 2, 0, &[("AWS_NEURON_IDS", "0,1")]), cores("b", "6,7"), cores("c", "8")];
    let settled = settled(&pods, None);
    assert_eq!(
        summary(&settled),
        "a 0,1,2,3 Record\nb 6,7 Record\nc unknown\nc: it names 1 core(s), the pod asks for 2; recreate the pod"
    );
    let given = settled.holdings[0].allocation.as_ref().unwrap();
    assert_eq!(given.containers.get("main").unwrap().devices.to_string(), "0,1");
}

#[test]
fn aws_ids_are_dealt_in_the_order_in_which_containers_start() {
    let asks = |name: &str, count: u32| json!({ "name": name, "resources": { "limits": { "aws.amazon.com/neuron": count } } });
    let mut side = asks("side", 1);
    side["restartPolicy"] = json!("Always");
    let spec =
        json!({ "initContainers": [side, asks("prepare", 3)], "containers": [asks("x", 1), asks("y", 2)] });
    let pod = pod_of("a", spec, &[("AWS_NEURON_IDS", "1,2,3,4")]);
    let allocation = record_counts(&pod, "n1", &topology()).unwrap().unwrap();
    let given: Vec<String> =
        allocation.containers.iter().map(|(name, given)| format!("{name} {}", given.devices)).collect();
    assert_eq!(given, ["prepare 2,3,4", "side 1", "x 2", "y 3,4"]);
}

#[rstest]
#[case(
    "2,3",
    1,
    2,
    "it does not say whether its ids are devices or cores, and the pod asks for both; recreate the pod"
)]
#[case("5,6", 2, 0, "it names device 6, the node has device 0 to 5; recreate the pod")]
#[case("70,80", 2, 0, "it names device 70,80, the node has device 0 to 5; recreate the pod")]
#[case(
    "x",
    1,
    0,
    "annotation AWS_NEURON_IDS cannot be read: \"x\" is not an id; use numbers separated by commas; recreate the pod"
)]
fn aws_keys_that_do_not_count(
    #[case] ids: &str,
    #[case] devices: u32,
    #[case] cores: u32,
    #[case] why: &str,
) {
    let pods = [pod("a", devices, cores, &[("AWS_NEURON_IDS", ids)])];
    assert_eq!(summary(&settled(&pods, None)), format!("a unknown\na: {why}"));
}

#[test]
fn reported_pods_that_have_the_same_cores_share_them_while_both_live() {
    let pods = |ended: &str| {
        let all = [with_cores("a", "0,1"), pod("b", 0, 2, &[]), pod("c", 0, 1, &[]), with_cores("d", "4,5")];
        all.map(|pod| BoundPod { terminal: *pod.uid == *ended, ..pod })
    };
    let report = report(&[("a", "0,1"), ("b", "1,2"), ("c", "2"), ("d", "4,5")]);
    let held = "a 0,1 ConfirmedRecord\nb 1,2 Report\nc 2 Report\nd 4,5 ConfirmedRecord";
    let shared = "a shares 1 with ns/b\nb shares 1 with ns/a\nc shares 2 with ns/b";
    assert_eq!(summary(&settled(&pods(""), Some(&report))), format!("{held}\n{shared}"));
    assert_eq!(settled(&pods("b"), Some(&report)).shared, []);
    // What only records say is settled between them.
    assert_eq!(settled(&pods(""), None).shared, []);
}
