//! Hardware that is held under one name and withdrawn from the other, for clusters in which only kube-scheduler counts.

use fake_cluster::kubelet::Kubelet;
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_device_plugin::CrossResource;

use crate::node::{Node, Plugin, asks};

/// A machine whose plugin withdraws, once everything can be asked for.
async fn withdrawing(instance_type: &str, devices: usize) -> (Node, Kubelet, Plugin) {
    let mut node = Node::new(instance_type);
    node.config.cross_resource = CrossResource::Withdraw;
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    shows(&node, devices, devices * 2).await;
    (node, kubelet, plugin)
}

async fn shows(node: &Node, devices: usize, cores: usize) {
    node.shows(NEURON, devices).await;
    node.shows(NEURONCORE, cores).await;
}

#[tokio::test]
async fn what_a_pod_holds_under_one_name_is_not_counted_under_the_other() {
    let (node, _kubelet, _plugin) = withdrawing("inf2.24xlarge", 6).await;
    node.place("devices", asks("neuron", 2), &[("main", "0,1", "")]).await;
    node.phase("devices", "Running").await;
    shows(&node, 6, 8).await;
    node.place("core", asks("neuroncore", 1), &[("main", "", "4")]).await;
    node.phase("core", "Running").await;
    // One core of device 2 is held, so the device as a whole cannot be given.
    shows(&node, 5, 8).await;
    node.delete("devices").await;
    shows(&node, 5, 12).await;
    node.delete("core").await;
    shows(&node, 6, 12).await;
}

#[tokio::test]
async fn pods_that_are_made_once_kubelet_counts_their_devices_are_never_refused() {
    let (node, _kubelet, _plugin) = withdrawing("inf2.xlarge", 1).await;
    for round in 0..8 {
        let (core, all) = (format!("core-{round}"), format!("all-{round}"));
        node.place(&core, asks("neuroncore", 1), &[]).await;
        node.phase(&core, "Running").await;
        shows(&node, 0, 2).await;
        node.delete(&core).await;
        shows(&node, 1, 2).await;
        node.place(&all, asks("neuron", 1), &[]).await;
        node.phase(&all, "Running").await;
        shows(&node, 1, 0).await;
        node.delete(&all).await;
        shows(&node, 1, 2).await;
    }
}
