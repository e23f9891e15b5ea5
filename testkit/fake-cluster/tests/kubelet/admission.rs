//! Pods that may not run, in kubelet's words, and the order of those that wait.

use fake_cluster::kubelet::Choice;
use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::Event;
use rstest::rstest;
use serde_json::json;
use tonic::Status;

use crate::plugin::{Call, Plugin, ids};
use crate::world::{World, container, ids_of, until, widgets};

#[tokio::test]
async fn too_few_devices_are_counted() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let _plugin = Plugin::registered(&world, 2).await;
    world.bind("p", widgets(1)).await;
    world.phase("p", "Running").await;
    world.bind("q", widgets(2)).await;
    let (reason, message) = world.rejection("q").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/widget. \
         Requested: 2, Available: 1, which is unexpected"
    );
    // What a rejected pod got before it was rejected is free again.
    world.bind("r", widgets(1)).await;
    world.phase("r", "Running").await;
    assert_eq!(kubelet.holdings().len(), 2);
}

#[rstest]
#[case::preferred("preferred", "device plugin GetPreferredAllocation rpc failed with err: ")]
#[case::allocate("allocate", "")]
#[tokio::test]
async fn a_plugins_error_fails_the_pod(#[case] rpc: &'static str, #[case] before: &str) {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    plugin.fail(rpc, Status::failed_precondition("held by another pod"));
    world.bind("p", widgets(1)).await;
    let (reason, message) = world.rejection("p").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        format!(
            "Pod was rejected: Allocate failed due to {before}rpc error: code = FailedPrecondition \
             desc = held by another pod, which is unexpected"
        )
    );
    assert_eq!(kubelet.holdings(), []);
}

#[tokio::test]
async fn cpu_is_counted_over_all_active_pods() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let spec = |cpu: &str| {
        let amounts = json!({ "cpu": cpu });
        json!({ "containers": [{ "name": "main", "image": "none", "resources": { "requests": amounts } }] })
    };
    world.bind("p", spec("60")).await;
    world.phase("p", "Running").await;
    world.bind("q", spec("4500m")).await;
    let (reason, message) = world.rejection("q").await;
    assert_eq!(reason, "OutOfcpu");
    assert_eq!(
        message,
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 4500, used: 60000, capacity: 64000"
    );
}

#[rstest]
#[case::first_come(Choice::Seeded, vec!["w0"], vec!["w1"])]
#[case::last_come(Choice::Hostile, vec!["w1"], vec!["w0"])]
#[tokio::test]
async fn pods_that_wait_together_are_admitted_in_the_chosen_order(
    #[case] choice: Choice,
    #[case] second: Vec<&str>,
    #[case] last: Vec<&str>,
) {
    let world = World::with(choice, 3);
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 3).await;
    plugin.prefer(["w2"]);
    plugin.brain.allocate_may_end.send_replace(false);
    world.bind("a", json!({ "containers": [container("a", 1)] })).await;
    until("the first Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    world.bind("b", json!({ "containers": [container("b", 1)] })).await;
    world.bind("c", json!({ "containers": [container("c", 1)] })).await;
    // The kubelet's watch is as fast as this one, and the answer to Allocate still has to cross a socket.
    let deliveries = kube::runtime::watcher(world.pods(), Default::default());
    let delivered = deliveries.try_filter_map(async |event| {
        Ok(if let Event::Apply(pod) | Event::InitApply(pod) = event { pod.metadata.name } else { None })
    });
    let third = std::pin::pin!(delivered.try_filter(|name| std::future::ready(name == "c"))).next().await;
    assert!(third.is_some());
    plugin.prefer(["w0"]);
    plugin.brain.allocate_may_end.send_replace(true);
    for pod in ["a", "b", "c"] {
        world.phase(pod, "Running").await;
    }
    let owned = |ids: Vec<&str>| ids.into_iter().map(str::to_owned).collect();
    assert_eq!(ids_of(&kubelet, "a"), ids(["w2"]));
    assert_eq!((ids_of(&kubelet, "b"), ids_of(&kubelet, "c")), (owned(second), owned(last)));
}

#[tokio::test]
async fn the_preferred_ids_are_used_only_as_far_as_they_are_available() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 3).await;
    plugin.prefer(["w2", "other"]);
    world.bind("p", widgets(2)).await;
    world.phase("p", "Running").await;
    let held = ids_of(&kubelet, "main");
    assert!(held.len() == 2 && held.contains("w2") && !held.contains("other"), "{held:?}");
}

#[tokio::test]
async fn the_plugin_is_asked_even_when_all_available_ids_are_needed() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 2).await;
    world.bind("p", widgets(2)).await;
    world.phase("p", "Running").await;
    let all = ids(["w0", "w1"]);
    let asked = Call::Preferred { available: all.clone(), must: ids([]), size: 2 };
    assert_eq!(plugin.calls(), [asked, Call::Allocate(all)]);
}
