//! What was observed when Kubernetes 1.34.4's own device manager ran (docs/reference/kubernetes.md §6).

use fake_cluster::kubelet::Kubelet;
use kubelet_api::deviceplugin::v1beta1::UNHEALTHY;
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, GetPodResourcesRequest, ListPodResourcesRequest, PodResources,
};
use serde_json::json;
use testkit_support::eventually;

use crate::test_node::{GADGET, TestNode, container, ending, ids_of, widgets};
use crate::test_plugin::{TestPlugin, device, healthy, ids};

async fn list(node: &TestNode) -> Vec<PodResources> {
    node.lister().await.list(ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources
}

async fn panic_reason(kubelet: &Kubelet) -> String {
    eventually("the panic", async || kubelet.panic_reason()).await
}

#[tokio::test]
async fn podresources_leaves_out_init_containers_that_end() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 2).await;
    let mut sidecar = container("side", 1);
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "initContainers": [ending(container("init", 1), 0, 0), sidecar],
        "containers": [container("main", 1)],
    });
    node.bind("p", spec).await;
    node.phase("p", "Running").await;

    let pods = list(&node).await;
    let names: Vec<&str> = pods[0].containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["side", "main"]);
    assert!(pods[0].containers.iter().all(|container| container.devices.len() == 1));
    let request = GetPodResourcesRequest { pod_name: "p".to_owned(), pod_namespace: "default".to_owned() };
    let one = node.lister().await.get(request).await.unwrap().into_inner().pod_resources.unwrap();
    assert_eq!(one, pods[0]);
    let all = node.lister().await.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
    assert_eq!(all.into_inner().devices.len(), 2);
}

#[tokio::test]
async fn a_list_while_an_allocate_is_open_forgets_it_when_another_pod_has_just_ended() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 4).await;
    plugin.prefer(["w2", "w3"]);
    let done = json!({ "restartPolicy": "Never", "containers": [ending(container("done", 2), 10, 0)] });
    node.bind("done", done).await;
    node.phase("done", "Running").await;

    plugin.prefer(["w0", "w1"]);
    plugin.script.allocate_may_end.send_replace(false);
    node.bind("open", json!({ "containers": [container("open", 2)] })).await;
    eventually("the open Allocate", async || (plugin.allocations() == 2).then_some(())).await;
    node.clock.advance(std::time::Duration::from_secs(10));
    node.phase("done", "Succeeded").await;
    assert_eq!(list(&node).await.len(), 1);
    plugin.script.allocate_may_end.send_replace(true);
    node.phase("open", "Running").await;

    node.bind("next", json!({ "containers": [container("next", 2)] })).await;
    node.phase("next", "Running").await;
    assert_eq!(ids_of(&kubelet, "open"), ids(["w0", "w1"]));
    assert_eq!(ids_of(&kubelet, "next"), ids(["w0", "w1"]), "two pods have the same ids");
}

#[tokio::test]
async fn a_list_while_an_allocate_is_open_is_harmless_when_no_pod_has_ended() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.script.allocate_may_end.send_replace(false);
    node.bind("open", widgets(1)).await;
    eventually("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    let pods = list(&node).await;
    assert_eq!(pods[0].containers[0].devices, [], "podresources shows no in-flight allocation");
    plugin.script.allocate_may_end.send_replace(true);
    node.phase("open", "Running").await;
    node.bind("both", widgets(2)).await;
    assert_eq!(node.rejection("both").await.0, "UnexpectedAdmissionError");
}

#[tokio::test]
async fn an_id_that_vanishes_during_its_own_allocate_panics_kubelet() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let panicked = kubelet.panicked();
    let plugin = TestPlugin::registered(&node, 1).await;
    plugin.script.allocate_may_end.send_replace(false);
    node.bind("p", widgets(1)).await;
    eventually("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    plugin.script.devices.send_replace(Vec::new());
    node.shows("0", "0").await;
    plugin.script.allocate_may_end.send_replace(true);
    let reason = panicked.await;
    assert!(reason.starts_with("w0 of example.com/widget vanished"), "{reason}");
    assert_eq!(panic_reason(&kubelet).await, reason);
    node.phase("p", "Pending").await;
}

#[tokio::test]
async fn an_id_that_turns_unhealthy_during_its_own_allocate_is_safe() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    plugin.script.allocate_may_end.send_replace(false);
    node.bind("p", widgets(1)).await;
    eventually("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    plugin.script.devices.send_replace(vec![device("w0", UNHEALTHY)]);
    node.shows("0", "1").await;
    plugin.script.allocate_may_end.send_replace(true);
    node.phase("p", "Running").await;
    assert_eq!(kubelet.panic_reason(), None);
}

#[tokio::test]
async fn freed_ids_are_seen_at_the_next_admission_at_once() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 1).await;
    let spec = json!({ "restartPolicy": "Never", "containers": [ending(container("main", 1), 10, 0)] });
    node.bind("p", spec).await;
    node.phase("p", "Running").await;
    node.clock.advance(std::time::Duration::from_secs(10));
    node.phase("p", "Succeeded").await;
    assert_eq!(kubelet.assignments().len(), 1, "no admission has freed them yet");
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    assert_eq!(kubelet.assignments().len(), 1);
}

#[tokio::test]
async fn the_end_of_a_plugin_leaves_other_resources_alone() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let _widgets = TestPlugin::registered(&node, 1).await;
    let gadgets = TestPlugin::serving(&node, "gadget.sock", healthy(1));
    gadgets.register_as("v1beta1", GADGET).await.unwrap();
    node.shows_of(GADGET, "1", "1").await;
    gadgets.kill();
    node.shows_of(GADGET, "0", "1").await;
    node.shows("1", "1").await;
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
}
