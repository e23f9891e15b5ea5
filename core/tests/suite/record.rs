//! The record on the pod and the report on the node: to and from text, and what is wrong with garbage.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::{self, Resource};
use neuron_core::placement::MAX_CONTAINERS;
use neuron_core::record::{Allocation, ContainerAllocation, Recorded};
use neuron_core::report::{Health, NodeReport};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

fn allocation(containers: &[(&str, &str, &str)]) -> Allocation {
    let given = |&(name, devices, cores): &(&str, &str, &str)| {
        let given = ContainerAllocation { devices: devices.parse().unwrap(), cores: cores.parse().unwrap() };
        (name.into(), given)
    };
    Allocation { node: "n1".into(), lnc: 1, containers: containers.iter().map(given).collect() }
}

fn lines(annotations: &BTreeMap<String, String>) -> String {
    annotations.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

fn parse(pairs: &[(&str, &str)]) -> Result<Option<Recorded>, String> {
    let annotations = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Allocation::parse(&annotations).map_err(|error| error.to_string())
}

#[test]
fn a_core_request_carries_every_key() {
    let annotations =
        allocation(&[("main", "", "3,2"), ("side", "", "5")]).annotations(false, "1767225600000000000");
    assert_eq!(
        lines(&annotations),
        "AWS_NEURON_IDS=2,3,5\n\
         NEURON_ALLOCATED=false\n\
         NEURON_ALLOC_TIME=1767225600000000000\n\
         NEURON_CORES=2,3,5\n\
         NEURON_RESOURCE_TYPE=aws.amazon.com/neuroncore\n\
         neuron-scheduler/allocation={\"v\":1,\"node\":\"n1\",\"lnc\":1,\"containers\":\
         {\"main\":{\"cores\":[2,3]},\"side\":{\"cores\":[5]}}}\n"
    );
}

#[test]
fn a_device_request_carries_every_key() {
    assert_eq!(
        lines(&allocation(&[("main", "0,1", "")]).annotations(true, "7")),
        "AWS_NEURON_IDS=0,1\n\
         NEURON_ALLOCATED=true\n\
         NEURON_ALLOC_TIME=7\n\
         NEURON_DEVS=0,1\n\
         NEURON_RESOURCE_TYPE=aws.amazon.com/neuron\n\
         neuron-scheduler/allocation={\"v\":1,\"node\":\"n1\",\"lnc\":1,\"containers\":{\"main\":{\"devices\":[0,1]}}}\n"
    );
}

#[test]
fn a_pod_with_both_names_carries_no_aws_keys() {
    assert_eq!(
        lines(&allocation(&[("main", "1", "0"), ("side", "", "1")]).annotations(false, "7")),
        "NEURON_CORES=0,1\n\
         NEURON_DEVS=1\n\
         neuron-scheduler/allocation={\"v\":1,\"node\":\"n1\",\"lnc\":1,\"containers\":\
         {\"main\":{\"devices\":[1],\"cores\":[0]},\"side\":{\"cores\":[1]}}}\n"
    );
}

#[test]
fn aws_keys_are_read_only_without_ours() {
    let aws = |resource| Ok(Some(Recorded::Aws { resource, ids: Box::new([2, 3].into()) }));
    assert_eq!(parse(&[("AWS_NEURON_IDS", "3, 2")]), aws(None));
    let typed = |name| parse(&[("AWS_NEURON_IDS", "2,3"), ("NEURON_RESOURCE_TYPE", name)]);
    assert_eq!(typed("aws.amazon.com/neuroncore"), aws(Some(Resource::Core)));
    assert_eq!(typed("aws.amazon.com/neuron"), aws(Some(Resource::Device)));
    assert_eq!(typed("aws.amazon.com/neurondevice"), aws(Some(Resource::Device)));

    let ours = r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[3,2]}}}"#;
    let both = parse(&[("AWS_NEURON_IDS", "garbage"), ("neuron-scheduler/allocation", ours)]);
    assert_eq!(both, Ok(Some(Recorded::Ours(Arc::new(allocation(&[("main", "", "2,3")]))))));
    assert_eq!(parse(&[("NEURON_CORES", "2,3"), ("NEURON_ALLOCATED", "false")]), Ok(None));
    assert_eq!(parse(&[]), Ok(None));
}

#[rstest]
#[case("", "EOF while parsing a value at line 1 column 0")]
#[case("2,3", "trailing characters at line 1 column 2")]
#[case(r#"[2,"n1",1,{}]"#, "it is not a JSON object")]
#[case(r#"{"v":2,"extra":1}"#, "it has version 2, this program reads version 1")]
#[case(r#"{"v":1,"node":"n1","lnc":1}"#, "missing field `containers`")]
#[case(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{},"extra":1}"#,
    "unknown field `extra`, expected one of `v`, `node`, `lnc`, `containers`"
)]
#[case(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"core":[1]}}}"#,
    "unknown field `core`, expected `devices` or `cores`"
)]
#[case(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{}}}"#,
    "container main has neither devices nor cores"
)]
#[case(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[128]}}}"#,
    "id 128 is out of range 0 to 127"
)]
#[case(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"devices":[64]}}}"#,
    "id 64 is out of range 0 to 63"
)]
#[case(r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[1,1]}}}"#, "id 1 stands twice")]
#[case(
    r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[-1]}}}"#,
    "invalid value: integer `-1`, expected u64"
)]
fn garbage_in_our_key_is_named(#[case] value: &str, #[case] problem: &str) {
    let error = parse(&[("neuron-scheduler/allocation", value)]).unwrap_err();
    assert_eq!(error, format!("annotation neuron-scheduler/allocation cannot be read: {problem}"));
}

#[rstest]
#[case("2;3", "\"2;3\" is not an id; use numbers separated by commas")]
#[case("", "it names no id")]
#[case("128", "id 128 is out of range 0 to 127")]
#[case("1,1", "id 1 stands twice")]
fn garbage_in_aws_key_is_named(#[case] value: &str, #[case] problem: &str) {
    let error = parse(&[("AWS_NEURON_IDS", value)]).unwrap_err();
    assert_eq!(error, format!("annotation AWS_NEURON_IDS cannot be read: {problem}"));
}

#[test]
fn a_foreign_resource_type_is_named() {
    let error = parse(&[("AWS_NEURON_IDS", "1"), ("NEURON_RESOURCE_TYPE", "nvidia.com/gpu")]).unwrap_err();
    assert_eq!(
        error,
        "annotation NEURON_RESOURCE_TYPE cannot be read: \"nvidia.com/gpu\" is neither aws.amazon.com/neuron \
         nor aws.amazon.com/neuroncore"
    );
}

const REPORT: &str = r#"{"v":1,"instanceType":"inf2.xlarge","lnc":1,"coresPerDevice":2,"devices":[{"id":0,"links":[],"health":"Unhealthy"}],"holders":[{"pod":"ns/a","uid":"u","cores":[0,1]}]}"#;

#[test]
fn a_report_reads_as_it_was_written() {
    let report = NodeReport::parse(REPORT).unwrap();
    assert_eq!(report.to_json(), REPORT);
    assert_eq!(report.devices[0].health, Health::Unhealthy);
    let without = NodeReport { cores_per_device: None, ..report };
    assert!(!without.to_json().contains("coresPerDevice"));
    assert_eq!(NodeReport::parse(&without.to_json()).unwrap(), without);
}

#[test]
fn a_device_of_unknown_health_is_served_and_its_report_says_why() {
    let unknown = REPORT.replace("\"Unhealthy\"", "\"Unknown\",\"reason\":\"no counters\"");
    let report = NodeReport::parse(&unknown).unwrap();
    assert_eq!(report.devices[0].health, Health::Unknown);
    assert_eq!(report.devices[0].reason.as_deref(), Some("no counters"));
    assert!(report.unhealthy().is_empty());
    assert_eq!(report.to_json(), unknown);
}

#[rstest]
#[case(
    "}",
    "cannot be read: expected value at line 1 column 1; restart the node's device plugin to have it written anew"
)]
#[case("[3]", "is not a JSON object; restart the node's device plugin to have it written anew")]
#[case(r#"{"v":3}"#, "has version 3, this program reads version 1; run the same version of both")]
#[case(
    r#"{"v":1}"#,
    "cannot be read: missing field `instanceType`; restart the node's device plugin to have it written anew"
)]
#[case(
    r#"{"v":1,"instanceType":"x","lnc":1,"devices":[{"id":64,"links":[],"health":"Healthy"}],"holders":[]}"#,
    "lists device 64, which is out of range or stands twice; restart the node's device plugin to have it written anew"
)]
fn garbage_in_a_report_is_named(#[case] value: &str, #[case] problem: &str) {
    let error = NodeReport::parse(value).unwrap_err().to_string();
    assert_eq!(error, format!("node annotation neuron-scheduler/devices {problem}"));
}

/// Text that is close enough to the real thing to get past the first check.
fn malformed() -> impl Strategy<Value = String> {
    let mangled = (0..REPORT.len(), any::<char>()).prop_map(|(at, new)| {
        let valid = r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[2,3],"devices":[0]}}}"#;
        let mut text: Vec<char> = valid.chars().collect();
        let at = at % text.len();
        text[at] = new;
        text.into_iter().collect()
    });
    prop_oneof![any::<String>(), "[0-9,.\\-+ eE]{0,40}", mangled]
}

fn given() -> impl Strategy<Value = ContainerAllocation> {
    (any::<u64>(), any::<u128>()).prop_filter_map("a container has something", |(devices, cores)| {
        let given =
            ContainerAllocation { devices: DeviceSet::from_bits(devices), cores: CoreSet::from_bits(cores) };
        (given != ContainerAllocation::default()).then_some(given)
    })
}

#[test]
fn of_a_long_value_little_is_quoted() {
    let field = "ä".repeat(10_000);
    let unknown = parse(&[(names::ALLOCATION, &format!("{{\"{field}\":1}}"))]).unwrap_err();
    assert!(unknown.contains("unknown field `ä") && unknown.ends_with("ä..."), "{unknown}");
    assert!(unknown.len() < 300, "{}", unknown.len());
}

#[rstest]
#[case::ours(names::ALLOCATION, 65_536)]
// It would be a list of one id.
#[case::of_aws(names::AWS_NEURON_IDS, 1024)]
fn what_is_longer_than_any_record_is_not_read(#[case] key: &str, #[case] longest: usize) {
    let long = parse(&[(key, &format!("1{}", " ".repeat(longest)))]);
    let why = format!("annotation {key} cannot be read: it is longer than {longest} bytes");
    assert_eq!(long.unwrap_err(), why);
}

/// Thousands of short names fit a value, and what is kept of them takes four times as much.
#[test]
fn a_record_of_more_containers_than_can_have_devices_is_not_read() {
    let record = |containers: usize| {
        let container = |at: usize| (format!("c{at}"), json!({"cores": [1]}));
        let containers: serde_json::Map<_, _> = (0..containers).map(container).collect();
        json!({"v": 1, "node": "n1", "lnc": 1, "containers": containers}).to_string()
    };
    assert!(parse(&[(names::ALLOCATION, &record(128))]).is_ok());
    let why = "annotation neuron-scheduler/allocation cannot be read: it names 129 containers, and at most 128 can have devices or cores";
    assert_eq!(parse(&[(names::ALLOCATION, &record(129))]).unwrap_err(), why);
    let containers = json!({"a".repeat(64): {"cores": [1]}});
    let long = json!({"v": 1, "node": "n1", "lnc": 1, "containers": containers}).to_string();
    let why = parse(&[(names::ALLOCATION, &long)]).unwrap_err();
    assert!(why.ends_with("a\" is longer than a container's name"), "{why}");
}

#[test]
fn what_is_just_as_long_as_it_may_be_is_read() {
    let ids = format!("1{}", " ".repeat(1023));
    let recorded = Recorded::Aws { resource: None, ids: Box::new([1].into()) };
    assert_eq!(parse(&[(names::AWS_NEURON_IDS, &ids)]), Ok(Some(recorded)));
}

#[test]
fn the_longest_record_that_can_be_placed_is_read() {
    let all = CoreSet::run(0, 128);
    let given = ContainerAllocation { devices: DeviceSet::EMPTY, cores: all };
    let name = |at: usize| format!("{at:0>63}").into();
    let containers = (0..MAX_CONTAINERS).map(|at| (name(at), given)).collect();
    let longest = Allocation { node: "n".repeat(253).into(), lnc: 1, containers };
    let annotations = longest.annotations(true, "1767225600000000000");
    assert_eq!(Allocation::parse(&annotations).unwrap(), Some(Recorded::Ours(Arc::new(longest))));
    assert!(annotations[names::NEURON_CORES].len() < 1024);
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn no_text_in_any_key_makes_it_panic(values in prop::collection::vec(prop::option::of(malformed()), 7)) {
        let pairs = names::POD_ANNOTATIONS.iter().zip(values);
        let annotations: BTreeMap<String, String> =
            pairs.filter_map(|(key, value)| Some((key.to_string(), value?))).collect();
        if let Err(error) = Allocation::parse(&annotations) {
            prop_assert!(annotations.contains_key(error.key));
            prop_assert!(error.to_string().contains(error.key));
        }
    }

    #[test]
    fn no_text_in_a_report_makes_it_panic(text in malformed(), at in 0..REPORT.len(), new in any::<char>()) {
        let _ = NodeReport::parse(&text);
        let mut mangled: Vec<char> = REPORT.chars().collect();
        mangled[at] = new;
        if let Ok(report) = NodeReport::parse(&mangled.into_iter().collect::<String>()) {
            prop_assert_eq!(NodeReport::parse(&report.to_json()).unwrap(), report);
        }
    }

    #[test]
    fn what_is_written_is_read(
        node in ".{0,20}",
        lnc in 1u8..=2,
        containers in prop::collection::btree_map("[a-z]{1,6}", given(), 1..4),
    ) {
        let containers = containers.into_iter().map(|(name, given)| (name.into(), given)).collect();
        let written = Allocation { node: node.into(), lnc, containers };
        let read = Allocation::parse(&written.annotations(false, "1")).unwrap();
        prop_assert_eq!(read, Some(Recorded::Ours(Arc::new(written))));
    }
}
