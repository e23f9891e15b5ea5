//! The plugin stays registered, whoever restarts, and waits for nobody.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};
use testkit_support::eventually;

use crate::node::{Node, Plugin, asks};

#[tokio::test]
async fn a_restarted_kubelet_is_registered_with_again() {
    let (node, kubelet, _plugin) = Node::running("inf2.24xlarge").await;
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

#[tokio::test]
async fn a_vanished_socket_is_served_again() {
    let (node, _kubelet, plugin) = Node::running("inf2.xlarge").await;
    let socket = node.socket("neuron-devplugin.sock");
    fs::remove_file(&socket).unwrap();
    eventually("the socket", async || socket.exists().then_some(())).await;
    node.shows("aws.amazon.com/neuron", 1).await;
    node.place("p", asks("neuron", 1), &[]).await;
    node.phase("p", "Running").await;
    plugin.stop().await;
    assert!(!socket.exists(), "a plugin that ends leaves no socket behind");
    node.shows("aws.amazon.com/neuron", 0).await;
}

#[tokio::test]
async fn a_dead_socket_in_the_place_of_ours_is_replaced() {
    let (node, _kubelet, _plugin) = Node::running("inf2.xlarge").await;
    let socket = node.socket("neuron-devplugin.sock");
    fs::remove_file(&socket).unwrap();
    // As a plugin that is killed leaves it behind.
    drop(UnixListener::bind(&socket).unwrap());
    eventually("somebody behind the socket", async || UnixStream::connect(&socket).ok().map(drop)).await;
    a_pod_runs(&node, 1).await;
}

#[tokio::test]
async fn of_two_plugins_the_newer_one_serves_and_goes_on_when_the_older_ends() {
    let (node, _kubelet, older) = Node::running("inf2.24xlarge").await;
    node.place("p", asks("neuron", 2), &[("main", "0,1", "")]).await;
    node.phase("p", "Running").await;
    let (_newer, inode) = newer_plugin(&node).await;
    a_pod_runs(&node, 1).await;
    stays(&node, &node.socket("neuron-devplugin.sock"), inode).await;
    older.stop().await;
    a_pod_runs(&node, 2).await;
    node.shows("aws.amazon.com/neuron", 6).await;
    node.shows("aws.amazon.com/neuroncore", 12).await;
}

#[tokio::test]
async fn an_older_plugin_serves_again_when_the_newer_one_has_gone() {
    let (node, _kubelet, _older) = Node::running("inf2.24xlarge").await;
    let (newer, _) = newer_plugin(&node).await;
    newer.stop().await;
    a_pod_runs(&node, 6).await;
}

#[tokio::test]
async fn a_kubelet_that_goes_on_without_its_socket_keeps_the_devices() {
    let (node, _kubelet, _plugin) = Node::running("inf2.xlarge").await;
    let socket = node.socket("neuron-devplugin.sock");
    let inode = fs::metadata(&socket).unwrap().ino();
    fs::remove_file(node.socket("kubelet.sock")).unwrap();
    stays(&node, &socket, inode).await;
    node.place("p", asks("neuron", 1), &[("main", "0", "")]).await;
    node.phase("p", "Running").await;
}

/// A second plugin once it has taken the first one's socket, and the inode of its own.
async fn newer_plugin(node: &Node) -> (Plugin, u64) {
    let inode = || fs::metadata(node.socket("neuron-devplugin.sock")).unwrap().ino();
    let older = inode();
    let newer = node.plugin();
    let newers =
        eventually("the newer one's socket", async || Some(inode()).filter(|now| *now != older)).await;
    (newer, newers)
}

/// Looks for as long as ten looks of a plugin take.
async fn stays(node: &Node, socket: &Path, inode: u64) {
    let end = Instant::now() + node.config.poll * 10;
    while Instant::now() < end {
        assert_eq!(fs::metadata(socket).unwrap().ino(), inode, "another socket is in its place");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Until kubelet has heard of the change it may refuse a pod.
async fn a_pod_runs(node: &Node, devices: u32) {
    let mut tries = 0;
    eventually("a pod to run", async || {
        tries += 1;
        let name = format!("{devices}-{tries}");
        node.place(&name, asks("neuron", devices), &[]).await;
        let ended = async || {
            let status = node.pods().get(&name).await.unwrap().status;
            status?.phase.filter(|phase| phase == "Running" || phase == "Failed")
        };
        (eventually("kubelet's word", ended).await == "Running").then_some(())
    })
    .await;
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
    let socket = node.socket("neuroncore-devplugin.sock");
    assert!(!socket.exists());
    node.config.legacy_resource = true;
    let _plugin = node.plugin();
    eventually("the sockets", async || {
        (socket.exists() && node.socket("neurondevice-devplugin.sock").exists()).then_some(())
    })
    .await;
    node.api.set_available(true);
    node.shows("aws.amazon.com/neuron", 1).await;
    node.shows("aws.amazon.com/neurondevice", 1).await;
    node.place("p", asks("neurondevice", 1), &[("main", "0", "")]).await;
    node.phase("p", "Running").await;
    drop(kubelet);
}
