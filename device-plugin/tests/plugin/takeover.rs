//! Plugins that are frozen, killed, refused or deployed twice: on every version of kubelet the node ends with a living plugin,
//! and without one it offers no devices.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use fake_cluster::System;
use fake_cluster::Version::{self, V1_34, V1_37};
use kubelet_api::podresources::v1::AllocatableResourcesRequest;
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::unix;
use neuron_device_plugin::kubelet::folder::PluginFolder;
use neuron_device_plugin::kubelet::serving_lock::ServingLock;
use rstest::rstest;
use testkit_support::{eventually, within};
use tokio::net::UnixListener as LivingListener;
use tokio::time::{Instant, sleep, timeout};

use crate::manual_kubelet::{ManualKubelet, node_object};
use crate::node::{Node, Plugin, asks, get};
use crate::process::Process;

const NEURON: &str = "aws.amazon.com/neuron";
const NEURONCORE: &str = "aws.amazon.com/neuroncore";

async fn offers(node: &Node, devices: usize) {
    node.shows(NEURON, devices).await;
    node.shows(NEURONCORE, devices * 2).await;
}

/// Waits until the resource `neuron` is served on a socket other than `before`.
async fn other_socket(node: &Node, before: &BTreeSet<String>) -> String {
    eventually("another socket", async || node.sockets().difference(before).next().cloned()).await
}

/// Waits until kubelet has accepted the plugin that listens there; before, it asks the one that is frozen.
async fn is_ready(address: SocketAddr) -> String {
    let ready = async || get(address, "/healthz").await.filter(|health| health.starts_with("HTTP/1.1 200"));
    eventually("the plugin to be ready", ready).await
}

#[rstest]
#[tokio::test]
async fn a_waiting_plugin_takes_over_from_a_frozen_one_and_the_next_one_from_it(
    #[values(V1_34, V1_37)] version: Version,
    #[values(false, true)] kubelet_restarts: bool,
) {
    let mut node = Node::of(version, "inf2.24xlarge");
    let mut kubelet = node.kubelet().await;
    let address = node.listen();
    let waiting = Process::start(&node);
    offers(&node, 6).await;
    let first = node.sockets();
    node.config.listen = None;
    let serving = Process::start(&node);
    other_socket(&node, &first).await;
    let replaced = async || get(address, "/healthz").await.filter(|health| health.contains("deployed twice"));
    eventually("the older to let go", replaced).await;
    node.a_pod_runs(1).await;

    serving.freeze().await;
    if kubelet_restarts {
        kubelet.stop().await;
        kubelet = node.kubelet().await;
    }
    is_ready(address).await;
    node.a_pod_runs(1).await;
    serving.kill();
    node.a_pod_runs(1).await;
    offers(&node, 6).await;

    waiting.kill();
    let next = Process::start(&node);
    node.a_pod_runs(1).await;
    offers(&node, 6).await;
    next.kill();
    // What nobody serves any more is not offered.
    offers(&node, 0).await;
    drop(kubelet);
}

#[rstest]
#[tokio::test]
async fn a_frozen_plugin_that_goes_on_lets_the_one_in_its_place_serve(
    #[values(V1_34, V1_37)] version: Version,
) {
    let mut node = Node::of(version, "inf2.24xlarge");
    let _kubelet = node.kubelet().await;
    let frozen = Process::start(&node);
    offers(&node, 6).await;
    let before = node.sockets();
    frozen.freeze().await;
    let address = node.listen();
    let newer = Process::start(&node);
    let health = is_ready(address).await;
    let note = "ok\naws.amazon.com/neuron: serving in place of another device plugin on this node, which gives no sign of life";
    assert!(health.contains(note), "{health}");
    node.a_pod_runs(1).await;
    frozen.thaw();
    eventually("the old socket to go", async || node.sockets().is_disjoint(&before).then_some(())).await;
    node.a_pod_runs(1).await;
    newer.kill();
    node.a_pod_runs(1).await;
    drop(frozen);
    offers(&node, 0).await;
}

#[rstest]
#[tokio::test]
async fn a_plugin_starts_while_kubelet_waits_for_a_frozen_one(#[values(V1_34, V1_37)] version: Version) {
    let node = Node::of(version, "inf2.24xlarge");
    let _kubelet = node.kubelet().await;
    let frozen = Process::start(&node);
    offers(&node, 6).await;
    let before = node.sockets();
    frozen.freeze().await;
    // kubelet asks the frozen plugin, and admits no other pod until it has an answer.
    node.place("held", asks("neuron", 1), &[]).await;
    let newer = Process::start(&node);
    other_socket(&node, &before).await;
    frozen.kill();
    node.a_pod_runs(1).await;
    offers(&node, 6).await;
    newer.kill();
    offers(&node, 0).await;
}

#[rstest]
#[tokio::test]
async fn a_plugin_that_is_killed_and_started_at_once_again_and_again_serves(
    #[values(V1_34, V1_37)] version: Version,
) {
    let node = Node::of(version, "inf2.24xlarge");
    let _kubelet = node.kubelet().await;
    let mut plugin = Process::start(&node);
    for round in 0..40 {
        let before = node.sockets();
        plugin.kill();
        plugin = Process::start(&node);
        // It is killed again at any moment: before its first socket, once that is there, or when it serves.
        match round % 4 {
            0 | 2 => drop(other_socket(&node, &before).await),
            1 => offers(&node, 6).await,
            _ => {}
        }
    }
    node.a_pod_runs(1).await;
    offers(&node, 6).await;
    let left = async || (node.sockets().len() == 1).then_some(());
    eventually("the sockets of the killed ones to be removed", left).await;
    plugin.kill();
    offers(&node, 0).await;
}

/// How long kubelet offers no device while a newer plugin takes the place of an older one, and once that has ended.
#[tokio::test]
async fn devices_are_missing_for_much_less_than_a_second_when_a_newer_plugin_takes_over() {
    let node = Node::of(V1_37, "inf2.24xlarge");
    let kubelet = node.kubelet().await;
    let older = Process::start(&node);
    offers(&node, 6).await;
    let socket = kubelet.config().podresources_socket();
    let mut lister = PodResourcesListerClient::new(unix::connect(&socket).await.unwrap());
    let mut offered = async || {
        let answer = lister.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
        let devices = answer.into_inner().devices;
        devices
            .iter()
            .filter(|devices| devices.resource_name == NEURON)
            .map(|devices| devices.device_ids.len())
            .sum::<usize>()
    };
    assert_eq!(offered().await, 6);
    let before = node.sockets();
    let newer = Process::start(&node);
    let (mut gap, mut since) = (Duration::ZERO, None);
    within("the newer one to serve", async {
        // Until kubelet offers them again, on other sockets than before.
        loop {
            let is_missing = offered().await < 6;
            match (is_missing, since) {
                (true, None) => since = Some(Instant::now()),
                (false, Some(began)) => {
                    gap = Instant::now() - began;
                    since = None;
                    if node.sockets().is_disjoint(&before) {
                        break;
                    }
                }
                _ => {}
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // Half of what a plugin waited before it asked kubelet.
    assert!(gap < Duration::from_millis(500), "{gap:?}");
    older.kill();
    node.a_pod_runs(1).await;
    newer.kill();
}

#[tokio::test]
async fn sockets_that_killed_plugins_left_are_removed_and_no_others() {
    let node = Node::new("inf2.xlarge");
    let _kubelet = node.kubelet().await;
    let earlier = ["neuron-devplugin.sock", "neuron-devplugin.sock.0123abcd", "neurondevice-devplugin.sock"];
    let dead = ["neuron-devplugin-00000001.sock", "neuroncore-devplugin-00000001.sock"];
    let others =
        ["neuron-devplugin-mine.sock", "example.com-widget.sock", "neurondevice-devplugin-00000001.sock"];
    for name in earlier.iter().chain(&dead).chain(&others) {
        drop(UnixListener::bind(node.socket(name)).unwrap());
    }
    // It listens, though it never answers.
    let living = "neuron-devplugin-00000002.sock";
    let _living = LivingListener::bind(node.socket(living)).unwrap();
    fs::write(node.socket("neuron-devplugin-00000003.sock"), "no socket").unwrap();
    let lock = node.socket("neuron-devplugin.lock.00000001");
    fs::write(&lock, "").unwrap();

    let _plugin = node.plugin();
    node.shows(NEURON, 1).await;
    for gone in [earlier[0], earlier[1], dead[0], dead[1]] {
        assert!(!node.socket(gone).exists(), "{gone}");
    }
    assert!(!lock.exists());
    // The resource neurondevice is not this plugin's.
    for kept in others.iter().chain([&living, &earlier[2], &"neuron-devplugin-00000003.sock"]) {
        assert!(node.socket(kept).exists(), "{kept}");
    }
}

#[tokio::test]
async fn a_lock_file_that_is_removed_is_put_back_without_a_pause() {
    let (node, _kubelet, _plugin) = Node::running("inf2.xlarge").await;
    let (lock, before) = (node.socket("neuron-devplugin.lock"), node.sockets());
    fs::remove_file(&lock).unwrap();
    eventually("the lock file", async || lock.exists().then_some(())).await;
    assert_eq!(node.sockets(), before);
    let newer = node.plugin();
    other_socket(&node, &before).await;
    newer.stop().await;
    node.a_pod_runs(1).await;
}

/// A node on which a newer plugin starts while the one before has let go of `neuron`, and still answers for `neuroncore`.
struct OneNameHeld {
    kubelet: Arc<ManualKubelet>,
    folder: PluginFolder,
    before: ServingLock,
    newer: Plugin,
    _node: Node,
}

async fn one_name_held() -> OneNameHeld {
    let node = Node::new("inf2.24xlarge");
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    let folder = PluginFolder::new(System::real(), node.config.plugin_dir());
    let before = ServingLock::claim(&folder, &folder.path.join("neuroncore-devplugin.lock")).await.unwrap();
    OneNameHeld { kubelet, folder, before, newer: node.plugin(), _node: node }
}

#[tokio::test]
async fn both_names_move_to_a_newer_plugin_together() {
    let held = one_name_held().await;
    // An answer of the plugin before may be open for much longer.
    let is_first = timeout(Duration::from_secs(3), held.kubelet.registered(1)).await;
    assert!(is_first.is_err(), "neuron has moved alone");
    drop(held.before);
    held.kubelet.registered(1).await;
    held.kubelet.plugin_of(NEURONCORE).await;
}

#[tokio::test]
async fn a_name_whose_lock_file_cannot_be_used_is_not_waited_for_without_end() {
    let node = Node::new("inf2.24xlarge");
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    // No file takes the place of a folder.
    let lock = node.socket("neuroncore-devplugin.lock");
    fs::create_dir(&lock).unwrap();
    let _newer = node.plugin();
    kubelet.registered(1).await;
    fs::remove_dir(&lock).unwrap();
    kubelet.plugin_of(NEURONCORE).await;
}

#[tokio::test]
async fn a_plugin_is_asked_to_end_while_one_name_waits_for_the_other() {
    let held = one_name_held().await;
    let neuron = held.folder.path.join("neuron-devplugin.lock");
    eventually("the newer plugin to have neuron", async || neuron.exists().then_some(())).await;
    within("the plugin to end", held.newer.stop()).await;
}
