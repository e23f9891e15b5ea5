//! Records say what kubelet really gave, whatever it chose; the node report says it too.

use fake_cluster::kubelet::FreeChoices;
use kube::Api;
use kube::api::{Patch, PatchParams};
use neuron_core::names::{
    ALLOCATION, AWS_NEURON_IDS, NEURON_ALLOC_TIME, NEURON_ALLOCATED, NEURON_DEVS, NODE_REPORT,
};
use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;

use crate::node::{NODE, Node, asks, container};

#[tokio::test]
async fn allocated_is_written_once_the_pod_has_its_devices() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.place("p", asks("neuron", 2), &[("main", "2,3", "")]).await;
    assert_eq!(node.annotation("p", NEURON_DEVS).await.as_deref(), Some("2,3"));
    eventually("NEURON_ALLOCATED", async || {
        (node.annotation("p", NEURON_ALLOCATED).await.as_deref() == Some("true")).then_some(())
    })
    .await;
    let report = node.report("the holder", |report| report["holders"][0]["pod"] == "default/p").await;
    assert_eq!(report["holders"][0]["cores"], json!([4, 5, 6, 7]));
    assert_eq!(report["instanceType"], "inf2.24xlarge");
    assert_eq!(report["devices"][1], json!({ "id": 1, "links": [0, 2], "health": "Healthy" }));
}

#[tokio::test]
async fn a_pod_placed_by_aws_extension_keeps_its_own_keys() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    let keys = [(AWS_NEURON_IDS, "2,3"), (NEURON_ALLOCATED, "false"), (NEURON_ALLOC_TIME, "17")];
    node.create("p", asks("neuron", 2)).await;
    node.bind("p", &keys.map(|(key, value)| (key.to_owned(), value.to_owned())).into()).await;
    node.phase("p", "Running").await;
    assert_eq!(node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES").1.as_deref(), Some("2,3"));
    eventually("NEURON_ALLOCATED", async || {
        (node.annotation("p", NEURON_ALLOCATED).await.as_deref() == Some("true")).then_some(())
    })
    .await;
    assert_eq!(node.annotation("p", ALLOCATION).await, None);
    assert_eq!(node.annotation("p", NEURON_ALLOC_TIME).await.as_deref(), Some("17"));
}

#[tokio::test]
async fn a_forged_record_is_replaced_by_what_kubelet_gave() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.create("p", asks("neuroncore", 2)).await;
    let forged = [(ALLOCATION, "{\"v\":1,"), (NEURON_DEVS, "5")];
    node.bind("p", &forged.map(|(key, value)| (key.to_owned(), value.to_owned())).into()).await;
    node.phase("p", "Running").await;
    node.recorded("p", &[("main", "", "0,1")]).await;
    assert_eq!(node.annotation("p", NEURON_DEVS).await, None);
    let right = "p: AllocationCorrected: The record now says what kubelet gave the pod: container main has \
                 neuroncore0,neuroncore1";
    eventually("the event", async || node.events().await.contains(right).then_some(())).await;
}

#[tokio::test]
async fn every_correction_is_told_in_its_own_words() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.place("p", asks("neuroncore", 2), &[("main", "", "0,1")]).await;
    node.phase("p", "Running").await;
    for forged in ["4,5", "6,7"] {
        let forged = json!({"metadata": {"annotations": node.record(&[("main", "", forged)])}});
        node.pods().patch("p", &PatchParams::default(), &Patch::Merge(&forged)).await.unwrap();
        node.recorded("p", &[("main", "", "0,1")]).await;
    }
    for forged in ["neuroncore4,neuroncore5", "neuroncore6,neuroncore7"] {
        let told = format!(
            "p: AllocationCorrected: The record now says what kubelet gave the pod: container main has \
             neuroncore0,neuroncore1 instead of {forged}"
        );
        eventually(&told, async || node.events().await.contains(&told).then_some(())).await;
    }
}

#[rstest]
#[case::one(1)]
#[case::two(2)]
#[case::three(3)]
#[tokio::test]
async fn ids_handed_down_by_an_init_container_are_recorded_as_chosen(#[case] seed: u64) {
    let mut node = Node::new("inf2.24xlarge");
    node.kubelet_config.free_choices = FreeChoices::Seeded(seed);
    let kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuroncore", 12).await;
    let mut init = container("init", "neuroncore", 2);
    init["args"] = json!(["0"]);
    let spec = json!({ "initContainers": [init], "containers": [container("main", "neuroncore", 1)] });
    node.place("p", spec, &[("init", "", "2,3"), ("main", "", "2")]).await;
    node.phase("p", "Running").await;
    let held = kubelet.assignments().into_iter().find(|held| held.container == "main").unwrap();
    let core = held.ids.first().unwrap().trim_start_matches("neuroncore").to_owned();
    node.recorded("p", &[("init", "", "2,3"), ("main", "", &core)]).await;
}

#[tokio::test]
async fn a_restarted_plugin_knows_what_pods_hold() {
    let (node, _kubelet, plugin) = Node::running("inf2.24xlarge").await;
    // No record at all: only kubelet knows.
    node.place("p", asks("neuron", 2), &[]).await;
    node.phase("p", "Running").await;
    plugin.stop().await;
    node.shows("aws.amazon.com/neuron", 0).await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuroncore", 12).await;
    node.place("q", asks("neuroncore", 1), &[]).await;
    node.phase("q", "Running").await;
    let (_, cores) = node.got("q", "main", "NEURON_RT_VISIBLE_CORES");
    let held = node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES").1.unwrap();
    let core: u8 = cores.unwrap().parse().unwrap();
    assert!(!held.split(',').any(|device| device == (core / 2).to_string()), "{core} of {held}");
    node.report("both holders", |report| report["holders"].as_array().is_some_and(|all| all.len() == 2))
        .await;
}

#[tokio::test]
async fn a_node_that_lost_its_report_gets_it_again() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    let before = node.report("all devices", |report| report["devices"][5]["id"] == 5).await;
    // As on a Node that was deleted and registered anew: it has no annotations.
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(node.api.client());
    let lost = json!({"metadata": {"annotations": {NODE_REPORT: null}}});
    let patched = nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(&lost)).await.unwrap();
    assert!(!patched.metadata.annotations.unwrap_or_default().contains_key(NODE_REPORT));
    assert_eq!(node.report("the same", |_| true).await, before);
}
