//! Numbers from 0 inside containers that may ask under both names: kubelet drops one of two device nodes of one path.

use neuron_device_plugin::Numbering;
use serde_json::json;

use crate::manual_kubelet::{ManualKubelet, node_object, request};
use crate::node::{Node, asks};

/// A node whose plugin counts from 0.
fn renumbering() -> Node {
    let mut node = Node::new("trn1.32xlarge");
    node.config.container_numbering = Numbering::Renumbered;
    node
}

/// A container that asks for two cores, and for a device beside them.
fn asks_for_both() -> serde_json::Value {
    let limits = json!({"aws.amazon.com/neuroncore": "2", "aws.amazon.com/neuron": "1"});
    json!({"containers": [{"name": "main", "image": "none", "resources": {"limits": limits, "requests": limits}}]})
}

#[tokio::test]
async fn a_container_that_asks_under_both_names_is_numbered_over_all_that_it_has() {
    let node = renumbering();
    let (_kubelet, _plugin) = (node.kubelet().await, node.plugin());
    node.shows("aws.amazon.com/neuroncore", 32).await;
    node.shows("aws.amazon.com/neuron", 16).await;
    node.place("both", asks_for_both(), &[("main", "5", "12,13")]).await;
    node.phase("both", "Running").await;
    let mut inside: Vec<_> =
        node.started("both", "main").devices.into_iter().map(|device| device.container_path).collect();
    inside.sort();
    assert_eq!(inside, ["/dev/neuron0", "/dev/neuron1"]);
    assert_eq!(node.started("both", "main").env["NEURON_RT_VISIBLE_CORES"], "2,3");
}

/// Has the ids of a resource allocated; the paths of their devices inside the container.
async fn inside(kubelet: &ManualKubelet, resource: &str, ids: &[&str]) -> Vec<String> {
    let mut plugin = kubelet.plugin_of(&format!("aws.amazon.com/{resource}")).await;
    let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let answer = plugin.allocate(request(&ids)).await.unwrap().into_inner();
    answer.container_responses[0].devices.iter().map(|device| device.container_path.clone()).collect()
}

#[tokio::test]
async fn where_pods_that_wait_differ_in_it_the_hosts_numbers_are_given() {
    let node = renumbering();
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    let _plugin = node.plugin();
    // Both wait for two cores when the plugin is asked.
    node.place("both", asks_for_both(), &[("main", "5", "12,13")]).await;
    node.place("cores", asks("neuroncore", 2), &[("main", "", "4,5")]).await;
    assert_eq!(inside(&kubelet, "neuroncore", &["neuroncore12", "neuroncore13"]).await, ["/dev/neuron6"]);
    assert_eq!(inside(&kubelet, "neuron", &["neuron5"]).await, ["/dev/neuron5"]);
}

#[tokio::test]
async fn the_second_name_of_a_container_is_numbered_as_its_first() {
    let node = renumbering();
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    let _plugin = node.plugin();
    node.place("both", asks_for_both(), &[("main", "1", "12,13")]).await;
    assert_eq!(inside(&kubelet, "neuroncore", &["neuroncore12", "neuroncore13"]).await, ["/dev/neuron1"]);
    // Between both another pod comes that waits for as many.
    node.place("device", asks("neuron", 1), &[("main", "2", "")]).await;
    assert_eq!(inside(&kubelet, "neuron", &["neuron1"]).await, ["/dev/neuron0"]);
}
