//! Records say what kubelet really gave, whatever it chose; the node report says it too.

use neuron_core::names::{NEURON_ALLOCATED, NEURON_DEVS};
use rstest::rstest;
use serde_json::json;

use crate::node::{Node, asks, container, until};

#[tokio::test]
async fn allocated_is_written_once_the_pod_has_its_devices() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.place("p", asks("neuron", 2), &[("main", "2,3", "")]).await;
    assert_eq!(node.annotation("p", NEURON_DEVS).await.as_deref(), Some("2,3"));
    until("NEURON_ALLOCATED", async || {
        (node.annotation("p", NEURON_ALLOCATED).await.as_deref() == Some("true")).then_some(())
    })
    .await;
    let report = node.report("the holder", |report| report["holders"][0]["pod"] == "default/p").await;
    assert_eq!(report["holders"][0]["cores"], json!([4, 5, 6, 7]));
    assert_eq!(report["instanceType"], "inf2.24xlarge");
    assert_eq!(report["devices"][1], json!({ "id": 1, "links": [0, 2], "health": "Healthy" }));
}

#[rstest]
#[case::one(1)]
#[case::two(2)]
#[case::three(3)]
#[tokio::test]
async fn ids_handed_down_by_an_init_container_are_recorded_as_chosen(#[case] seed: u64) {
    let mut node = Node::new("inf2.24xlarge");
    node.kubelet_config.seed = seed;
    let kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuroncore", 12).await;
    let mut init = container("init", "neuroncore", 2);
    init["args"] = json!(["0"]);
    let spec = json!({ "initContainers": [init], "containers": [container("main", "neuroncore", 1)] });
    node.place("p", spec, &[("init", "", "2,3"), ("main", "", "2")]).await;
    node.phase("p", "Running").await;
    let held = kubelet.holdings().into_iter().find(|held| held.container == "main").unwrap();
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
