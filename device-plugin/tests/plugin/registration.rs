//! The plugin stays registered, whoever restarts, and waits for nobody.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fake_cluster::Version::{self, V1_34, V1_37};
use rstest::rstest;
use testkit_support::eventually;

use crate::manual_kubelet::{ManualKubelet, node_object, registered};
use crate::node::{Node, Plugin, asks, get};

#[rstest]
#[tokio::test]
async fn a_restarted_kubelet_is_registered_with_again(#[values(V1_34, V1_37)] version: Version) {
    let (node, kubelet, _plugin) = Node::running_of(version, "inf2.24xlarge").await;
    node.place("p", asks("neuron", 2), &[("main", "0,1", "")]).await;
    node.phase("p", "Running").await;
    kubelet.stop().await;
    let _kubelet = node.kubelet().await;
    node.shows("aws.amazon.com/neuron", 6).await;
    node.shows("aws.amazon.com/neuroncore", 12).await;
    node.place("q", asks("neuron", 4), &[("main", "2,3,4,5", "")]).await;
    node.phase("q", "Running").await;
    assert_eq!(node.got("q", "main", "AWS_NEURON_VISIBLE_DEVICES").1.as_deref(), Some("2,3,4,5"));
}

#[rstest]
#[tokio::test]
async fn a_vanished_socket_is_served_again(#[values(V1_34, V1_37)] version: Version) {
    let (node, _kubelet, plugin) = Node::running_of(version, "inf2.xlarge").await;
    let vanished = node.sockets();
    vanished.iter().for_each(|name| fs::remove_file(node.socket(name)).unwrap());
    let another = async || (!node.sockets().is_empty()).then_some(());
    eventually("another socket", another).await;
    assert!(node.sockets().is_disjoint(&vanished), "no path is registered twice");
    node.a_pod_runs(1).await;
    plugin.stop().await;
    assert!(node.sockets().is_empty(), "a plugin that ends leaves no socket behind");
    node.shows("aws.amazon.com/neuron", 0).await;
}

#[rstest]
#[tokio::test]
async fn of_two_plugins_the_newer_one_serves_and_goes_on_when_the_older_ends(
    #[values(V1_34, V1_37)] version: Version,
) {
    let (node, _kubelet, older) = Node::running_of(version, "inf2.24xlarge").await;
    node.place("p", asks("neuron", 2), &[("main", "0,1", "")]).await;
    node.phase("p", "Running").await;
    let (_newer, sockets) = newer_plugin(&node).await;
    node.a_pod_runs(1).await;
    stay(&node, &sockets).await;
    older.stop().await;
    node.a_pod_runs(2).await;
    node.shows("aws.amazon.com/neuron", 6).await;
    node.shows("aws.amazon.com/neuroncore", 12).await;
}

#[rstest]
#[tokio::test]
async fn an_older_plugin_serves_again_when_the_newer_one_has_gone(#[values(V1_34, V1_37)] version: Version) {
    let (node, _kubelet, _older) = Node::running_of(version, "inf2.24xlarge").await;
    let (newer, _) = newer_plugin(&node).await;
    newer.stop().await;
    node.a_pod_runs(6).await;
}

#[tokio::test]
async fn nothing_of_a_plugin_that_is_dropped_goes_on_serving() {
    let (node, _kubelet, plugin) = Node::running("inf2.xlarge").await;
    plugin.dropped().await;
    node.shows("aws.amazon.com/neuron", 0).await;
    let _next = node.plugin();
    node.a_pod_runs(1).await;
}

#[tokio::test]
async fn a_kubelet_that_goes_on_without_its_socket_keeps_the_devices() {
    let (node, _kubelet, _plugin) = Node::running("inf2.xlarge").await;
    let sockets = node.sockets();
    fs::remove_file(node.socket("kubelet.sock")).unwrap();
    stay(&node, &sockets).await;
    node.place("p", asks("neuron", 1), &[("main", "0", "")]).await;
    node.phase("p", "Running").await;
}

/// A second plugin once it serves, and the names of its sockets.
async fn newer_plugin(node: &Node) -> (Plugin, BTreeSet<String>) {
    let older = node.sockets();
    let newer = node.plugin();
    let newers = async || Some(node.sockets()).filter(|now| !now.is_empty() && now.is_disjoint(&older));
    (newer, eventually("the newer one's socket alone", newers).await)
}

/// Looks for as long as ten looks of a plugin take.
async fn stay(node: &Node, sockets: &BTreeSet<String>) {
    let end = Instant::now() + node.config.poll * 10;
    while Instant::now() < end {
        assert_eq!(node.sockets(), *sockets, "another socket serves");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn devices_are_offered_while_kubelet_comes_late_and_the_api_server_is_away() {
    let node = Node::new("inf2.xlarge");
    let plugin = node.plugin();
    let kubelet = node.kubelet().await;
    node.shows("aws.amazon.com/neuron", 1).await;
    plugin.stop().await;

    node.api.set_available(false);
    let mut node = node;
    // Nothing of an earlier life may be mistaken for a registration.
    assert!(node.sockets_of("neuroncore-devplugin").is_empty());
    node.config.legacy_resource = true;
    let _plugin = node.plugin();
    let served = |files| !node.sockets_of(files).is_empty();
    let all = async || (served("neuroncore-devplugin") && served("neurondevice-devplugin")).then_some(());
    eventually("the sockets", all).await;
    node.api.set_available(true);
    node.shows("aws.amazon.com/neuron", 1).await;
    node.shows("aws.amazon.com/neurondevice", 1).await;
    node.place("p", asks("neurondevice", 1), &[("main", "0", "")]).await;
    node.phase("p", "Running").await;
    drop(kubelet);
}

#[tokio::test]
async fn a_lost_stream_means_registering_again() {
    let (_node, kubelet, _plugin) = registered("inf2.xlarge").await;
    kubelet.streams.send_modify(Vec::clear);
    kubelet.registered(2).await;
    kubelet.sockets_differ();
}

#[tokio::test]
async fn a_kubelet_that_forgets_what_it_was_told_is_told_again() {
    let (_node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    // Its stream stays open, and yet its devices are gone: as when an earlier plugin's stream ends at the wrong moment.
    kubelet.allocatable.send_replace(Some(Vec::new()));
    kubelet.registered(2).await;
    kubelet.sockets_differ();
}

#[tokio::test]
async fn a_registration_that_was_refused_is_tried_again_on_another_socket() {
    let node = Node::new("inf2.xlarge");
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    kubelet
        .refusals
        .lock()
        .unwrap()
        .push("failed to dial device plugin: context deadline exceeded".to_owned());
    let _plugin = node.plugin();
    kubelet.registered(2).await;
    kubelet.sockets_differ();
    let gone = node.socket(&kubelet.sockets()[0]);
    assert!(!gone.exists(), "the socket of the refused server is gone");
}

#[tokio::test]
async fn a_kubelet_that_still_holds_a_path_is_asked_again_at_once_and_the_node_and_the_metrics_tell() {
    let mut node = Node::new("inf2.xlarge");
    node_object(&node).await;
    let address = node.listen();
    let kubelet = ManualKubelet::start(&node);
    kubelet.refusals.lock().unwrap().push("device plugin already connected: /a/path".to_owned());
    let _plugin = node.plugin();
    kubelet.registered(2).await;
    kubelet.sockets_differ();
    let sample = "neuron_device_plugin_already_connected_total{resource=\"aws.amazon.com/neuron\"} 1\n";
    let counted = async || get(address, "/metrics").await.filter(|answer| answer.contains(sample));
    eventually("the refusal to be counted", counted).await;
    let held = node.socket(&kubelet.sockets()[0]);
    let event = format!(
        "n1: NeuronPluginAlreadyConnected: aws.amazon.com/neuron is registered under another path, because kubelet still \
         holds {}, on which an earlier server was. Until kubelet restarts it may go on offering aws.amazon.com/neuron \
         without a device plugin",
        held.display()
    );
    assert_eq!(node.events().await, [event].into());
}

#[tokio::test]
async fn a_kubelet_that_drops_every_stream_is_not_stormed() {
    let node = Node::new("inf2.xlarge");
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    kubelet.drops.store(true, Ordering::SeqCst);
    let began = std::time::Instant::now();
    let _plugin = node.plugin();
    kubelet.registered(4).await;
    let waits = Duration::from_millis(200 + 400 + 800);
    assert!(began.elapsed() >= waits, "four registrations within {:?}", began.elapsed());
}
