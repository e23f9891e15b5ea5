//! What a pod gets from a ResourceClaim: left out of its request, held by nobody, and no way to free devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::claim::Claim;
use neuron_core::holders::{NodeFacts, settle};
use neuron_core::pod::{BoundPod, PodSpec, PodStatus};
use neuron_core::report::{HolderReport, NodeReport, Reported};
use neuron_core::topology::{Policy, Topology};
use rstest::rstest;
use serde_json::{Value, json};

/// A status that says that a claim gives these containers these resources, each as `container resource`.
fn claimed(mappings: &[&str]) -> PodStatus {
    let mapping = |text: &&str| {
        let (container, resource) = text.split_once(' ').unwrap();
        json!({"containerName": container, "resourceName": resource, "requestName": "container-0-request-0"})
    };
    let mappings: Vec<Value> = mappings.iter().map(mapping).collect();
    let claim = json!({"resourceClaimName": "p-extended-resources-x", "requestMappings": mappings});
    serde_json::from_value(json!({"phase": "Pending", "extendedResourceClaimStatus": claim})).unwrap()
}

/// A pod on n1 whose container `main` asks for 2 devices and 1 core, `side` for 1 device under the old name, and the init
/// container `first` for 2 devices.
fn pod(annotations: &[(&str, &str)], status: &PodStatus) -> BoundPod {
    pod_on(Some("n1"), annotations, status)
}

fn pod_on(node: Option<&str>, annotations: &[(&str, &str)], status: &PodStatus) -> BoundPod {
    let container = |name: &str, limits: Value| json!({"name": name, "resources": {"limits": limits}});
    let spec: PodSpec = serde_json::from_value(json!({
        "nodeName": node,
        "initContainers": [container("first", json!({"aws.amazon.com/neuron": 2}))],
        "containers": [
            container("main", json!({"aws.amazon.com/neuron": 2, "aws.amazon.com/neuroncore": 1})),
            container("side", json!({"aws.amazon.com/neurondevice": 1})),
        ],
    }))
    .unwrap();
    let annotations: BTreeMap<String, String> =
        annotations.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    BoundPod::new("ns", "p", "p", annotations, &spec, Some(status))
}

/// What is requested, container by container: devices and cores.
fn requested(pod: &BoundPod) -> String {
    let containers = &pod.request.as_ref().unwrap().containers;
    let each = containers.iter().map(|one| format!("{} {}+{}", one.name, one.devices, one.cores));
    each.collect::<Vec<_>>().join(", ")
}

const ALL: [&str; 4] = [
    "first aws.amazon.com/neuron",
    "main aws.amazon.com/neuron",
    "main aws.amazon.com/neuroncore",
    "side aws.amazon.com/neurondevice",
];

#[rstest]
#[case::nothing_of_ours(&["main example.com/gpu"], "first 2+0, main 2+1, side 1+0")]
#[case::one_resource(&["main aws.amazon.com/neuron"], "first 2+0, main 0+1, side 1+0")]
#[case::twice(&["main aws.amazon.com/neuron", "main aws.amazon.com/neuron"], "first 2+0, main 0+1, side 1+0")]
#[case::the_other(&["main aws.amazon.com/neuroncore"], "first 2+0, main 2+0, side 1+0")]
#[case::an_init_container(&["first aws.amazon.com/neuron"], "main 2+1, side 1+0")]
#[case::the_old_name(&["side aws.amazon.com/neurondevice"], "first 2+0, main 2+1")]
#[case::no_such_container(&["gone aws.amazon.com/neuron"], "first 2+0, main 2+1, side 1+0")]
#[case::all(&ALL, "")]
fn what_is_claimed_is_not_requested(#[case] mappings: &[&str], #[case] rest: &str) {
    for node in [None, Some("n1")] {
        assert_eq!(requested(&pod_on(node, &[], &claimed(mappings))), rest);
    }
}

#[test]
fn a_claim_names_its_resources_once_in_order() {
    let of = |mappings| Claim::of(&claimed(mappings).extended_resource_claim_status.unwrap());
    let claim = of(&ALL).unwrap();
    let resources: Vec<_> = claim.resources().into_iter().collect();
    assert_eq!(claim.name, "p-extended-resources-x");
    assert_eq!(
        resources,
        ["aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice"]
    );
    assert_eq!(of(&["main example.com/gpu"]), None);
}

/// The cores that are held on n1, an inf2.24xlarge with six devices of two cores, and how many holders are unknown.
fn held(pod: BoundPod, report: Option<&NodeReport>) -> (String, usize) {
    let inf2 = Catalog::embedded().find("inf2.24xlarge").unwrap();
    let topology = Arc::new(Topology::of(inf2, 1, Policy::Documented).unwrap());
    let reported = report.map(Reported::from);
    let settled = settle(&NodeFacts { name: "n1", topology, report: reported.as_ref(), pods: &[pod] });
    (settled.occupancy.held().to_string(), settled.unknown.len())
}

/// A record of everything that the pod asks for.
const RECORD: &str = r#"{"v":1,"node":"n1","lnc":1,"containers":{
    "first":{"devices":[0,1]},"main":{"devices":[0,1],"cores":[4]},"side":{"devices":[3]}}}"#;

#[test]
fn what_is_claimed_is_held_by_nobody() {
    assert_eq!(held(pod(&[], &PodStatus::default()), None), (String::new(), 1), "nothing says what it holds");
    assert_eq!(held(pod(&[], &claimed(&ALL)), None), (String::new(), 0));
    let rest = r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[4]}}}"#;
    let devices: Vec<&str> = ALL.into_iter().filter(|mapping| !mapping.contains("core")).collect();
    let partly = pod(&[("neuron-scheduler/allocation", rest)], &claimed(&devices));
    assert_eq!(held(partly, None), ("4".to_owned(), 0), "what is not claimed is held by its record");
}

#[rstest]
#[case::all(&ALL)]
#[case::some(&["main aws.amazon.com/neuron"])]
fn a_forged_claim_frees_nothing_that_a_record_gives(#[case] mappings: &[&str]) {
    let bound = pod(&[("neuron-scheduler/allocation", RECORD)], &claimed(mappings));
    assert_eq!(requested(&bound), "first 2+0, main 2+1, side 1+0");
    assert_eq!(held(bound, None), ("0,1,2,3,4,6,7".to_owned(), 0));
}

#[test]
fn a_forged_claim_frees_nothing_that_aws_keys_give_or_the_plugin_reports() {
    let spec: PodSpec = serde_json::from_value(json!({
        "nodeName": "n1",
        "containers": [{"name": "main", "resources": {"limits": {"aws.amazon.com/neuron": 2}}}],
    }))
    .unwrap();
    let status = claimed(&["main aws.amazon.com/neuron"]);
    let aws = BTreeMap::from([("AWS_NEURON_IDS".to_owned(), "1,2".to_owned())]);
    let by_aws = BoundPod::new("ns", "p", "p", aws, &spec, Some(&status));
    assert_eq!(held(by_aws, None), ("2,3,4,5".to_owned(), 0));

    let holder = HolderReport { pod: "ns/p".to_owned(), uid: "p".to_owned(), cores: "8,9".parse().unwrap() };
    let devices: Vec<Value> = (0..6).map(|id| json!({"id": id, "links": [], "health": "Healthy"})).collect();
    let report =
        json!({"v": 1, "instanceType": "inf2.24xlarge", "lnc": 1, "devices": devices, "holders": []});
    let report = NodeReport::parse(&report.to_string()).unwrap();
    let report = NodeReport { holders: vec![holder], ..report };
    let reported = BoundPod::new("ns", "p", "p", BTreeMap::new(), &spec, Some(&status));
    assert_eq!(held(reported, Some(&report)), ("8,9".to_owned(), 0));
}

#[test]
fn an_author_cannot_undo_a_claim_with_a_record_of_his_own_before_the_pod_is_bound() {
    let pending = pod_on(None, &[("neuron-scheduler/allocation", RECORD)], &claimed(&ALL));
    assert_eq!(requested(&pending), "");
    assert_eq!(pending.claim.unwrap().name, "p-extended-resources-x");
}
