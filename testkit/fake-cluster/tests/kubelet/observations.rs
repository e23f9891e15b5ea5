//! What was seen by running Kubernetes 1.34.4's own device manager (docs/reference/kubernetes.md §6).

use fake_cluster::kubelet::Kubelet;
use kubelet_api::deviceplugin::v1beta1::{HEALTHY, UNHEALTHY};
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, GetPodResourcesRequest, ListPodResourcesRequest, PodResources,
};
use kubelet_api::unix;
use serde_json::json;
use tonic::transport::Channel;

use crate::plugin::{Plugin, device, healthy, ids};
use crate::world::{World, container, ending, ids_of, until, widgets};

async fn lister(world: &World) -> PodResourcesListerClient<Channel> {
    PodResourcesListerClient::new(unix::connect(&world.config.podresources_socket()).await.unwrap())
}

async fn list(world: &World) -> Vec<PodResources> {
    lister(world).await.list(ListPodResourcesRequest {}).await.unwrap().into_inner().pod_resources
}

async fn fault(kubelet: &Kubelet) -> String {
    until("the fault", async || kubelet.fault()).await
}

#[tokio::test]
async fn podresources_leaves_out_init_containers_that_end() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let _plugin = Plugin::registered(&world, 2).await;
    let mut sidecar = container("side", 1);
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "initContainers": [ending(container("init", 1), 0, 0), sidecar],
        "containers": [container("main", 1)],
    });
    world.bind("p", spec).await;
    world.phase("p", "Running").await;

    let pods = list(&world).await;
    let names: Vec<&str> = pods[0].containers.iter().map(|container| container.name.as_str()).collect();
    assert_eq!(names, ["side", "main"]);
    assert!(pods[0].containers.iter().all(|container| container.devices.len() == 1));
    let request = GetPodResourcesRequest { pod_name: "p".to_owned(), pod_namespace: "default".to_owned() };
    let one = lister(&world).await.get(request).await.unwrap().into_inner().pod_resources.unwrap();
    assert_eq!(one, pods[0]);
    let all = lister(&world).await.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
    assert_eq!(all.into_inner().devices.len(), 2);
}

#[tokio::test]
async fn a_list_while_an_allocate_is_open_forgets_it_when_another_pod_has_just_ended() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 4).await;
    plugin.prefer(["w2", "w3"]);
    let done = json!({ "restartPolicy": "Never", "containers": [ending(container("done", 2), 10, 0)] });
    world.bind("done", done).await;
    world.phase("done", "Running").await;

    plugin.prefer(["w0", "w1"]);
    plugin.brain.allocate_may_end.send_replace(false);
    world.bind("open", json!({ "containers": [container("open", 2)] })).await;
    until("the open Allocate", async || (plugin.allocations() == 2).then_some(())).await;
    world.clock.advance(std::time::Duration::from_secs(10));
    world.phase("done", "Succeeded").await;
    assert_eq!(list(&world).await.len(), 1);
    plugin.brain.allocate_may_end.send_replace(true);
    world.phase("open", "Running").await;

    world.bind("next", json!({ "containers": [container("next", 2)] })).await;
    world.phase("next", "Running").await;
    assert_eq!(ids_of(&kubelet, "open"), ids(["w0", "w1"]));
    assert_eq!(ids_of(&kubelet, "next"), ids(["w0", "w1"]), "two pods hold the same two");
}

#[tokio::test]
async fn a_list_while_an_allocate_is_open_is_harmless_when_no_pod_has_ended() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 2).await;
    plugin.brain.allocate_may_end.send_replace(false);
    world.bind("open", widgets(1)).await;
    until("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    let pods = list(&world).await;
    assert_eq!(pods[0].containers[0].devices, [], "podresources shows no in-flight allocation");
    plugin.brain.allocate_may_end.send_replace(true);
    world.phase("open", "Running").await;
    world.bind("both", widgets(2)).await;
    assert_eq!(world.rejection("both").await.0, "UnexpectedAdmissionError");
}

#[tokio::test]
async fn an_id_that_vanishes_during_its_own_allocate_panics_kubelet() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    plugin.brain.allocate_may_end.send_replace(false);
    world.bind("p", widgets(1)).await;
    until("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    plugin.brain.devices.send_replace(Vec::new());
    world.node_shows("0", "0").await;
    plugin.brain.allocate_may_end.send_replace(true);
    assert!(fault(&kubelet).await.starts_with("w0 of example.com/widget vanished"));
    world.phase("p", "Pending").await;
}

#[tokio::test]
async fn an_id_that_turns_unhealthy_during_its_own_allocate_is_safe() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    plugin.brain.allocate_may_end.send_replace(false);
    world.bind("p", widgets(1)).await;
    until("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    plugin.brain.devices.send_replace(vec![device("w0", UNHEALTHY)]);
    world.node_shows("0", "1").await;
    plugin.brain.allocate_may_end.send_replace(true);
    world.phase("p", "Running").await;
    assert_eq!(kubelet.fault(), None);
}

#[tokio::test]
async fn the_newest_registration_wins_and_the_end_of_the_old_stream_drops_it() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let old = Plugin::registered(&world, 2).await;
    let new = Plugin::serving(&world, "second.sock", vec![device("x0", HEALTHY)]);
    new.register().await.unwrap();
    world.node_shows("1", "1").await;
    world.bind("p", widgets(1)).await;
    world.phase("p", "Running").await;
    assert_eq!((old.allocations(), new.allocations()), (0, 1));

    old.kill();
    world.node_shows("0", "1").await;
    // It still serves, but kubelet only comes back to it when it registers again.
    new.register().await.unwrap();
    world.node_shows("1", "1").await;
}

#[tokio::test]
async fn freed_ids_are_seen_at_the_next_admission_at_once() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let _plugin = Plugin::registered(&world, 1).await;
    let spec = json!({ "restartPolicy": "Never", "containers": [ending(container("main", 1), 10, 0)] });
    world.bind("p", spec).await;
    world.phase("p", "Running").await;
    world.clock.advance(std::time::Duration::from_secs(10));
    world.phase("p", "Succeeded").await;
    assert_eq!(kubelet.holdings().len(), 1, "nobody has looked yet");
    world.bind("q", widgets(1)).await;
    world.phase("q", "Running").await;
    assert_eq!(kubelet.holdings().len(), 1);
}

#[tokio::test]
async fn two_plugins_of_different_resources_do_not_meet() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let _widgets = Plugin::registered(&world, 1).await;
    let gadgets = Plugin::serving(&world, "gadget.sock", healthy(1));
    gadgets.register_as("v1beta1", "example.com/gadget").await.unwrap();
    gadgets.kill();
    world.node_shows("1", "1").await;
    world.bind("p", widgets(1)).await;
    world.phase("p", "Running").await;
}
