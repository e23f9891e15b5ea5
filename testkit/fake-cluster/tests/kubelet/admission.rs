//! Pods that are rejected, in kubelet's words, and the order of admission.

use fake_cluster::kubelet::FreeChoices;
use futures::{StreamExt, TryStreamExt};
use kube::runtime::watcher::Event;
use rstest::rstest;
use serde_json::json;
use testkit_support::{eventually, within};
use tonic::Status;

use crate::test_node::{TestNode, container, ids_of, widgets};
use crate::test_plugin::{Call, TestPlugin, ids};

#[tokio::test]
async fn too_few_devices_are_counted() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 2).await;
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    node.bind("q", widgets(2)).await;
    let (reason, message) = node.rejection("q").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for example.com/widget. \
         Requested: 2, Available: 1, which is unexpected"
    );
    // The id that the rejected pod got first is free again.
    node.bind("r", widgets(1)).await;
    node.phase("r", "Running").await;
    assert_eq!(kubelet.assignments().len(), 2);
}

#[rstest]
#[case::preferred("preferred", "device plugin GetPreferredAllocation rpc failed with err: ")]
#[case::allocate("allocate", "")]
#[tokio::test]
async fn a_plugins_error_fails_the_pod(#[case] rpc: &'static str, #[case] before: &str) {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    plugin.fail(rpc, Status::failed_precondition("held by another pod"));
    node.bind("p", widgets(1)).await;
    let (reason, message) = node.rejection("p").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        format!(
            "Pod was rejected: Allocate failed due to {before}rpc error: code = FailedPrecondition \
             desc = held by another pod, which is unexpected"
        )
    );
    assert_eq!(kubelet.assignments(), []);
}

#[tokio::test]
async fn cpu_is_counted_over_all_active_pods() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let spec = |cpu: &str| {
        let amounts = json!({ "cpu": cpu });
        json!({ "containers": [{ "name": "main", "image": "none", "resources": { "requests": amounts } }] })
    };
    node.bind("p", spec("60")).await;
    node.phase("p", "Running").await;
    node.bind("q", spec("4500m")).await;
    let (reason, message) = node.rejection("q").await;
    assert_eq!(reason, "OutOfcpu");
    assert_eq!(
        message,
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 4500, used: 60000, capacity: 64000"
    );
}

#[rstest]
#[case::first_come(FreeChoices::Seeded(1), vec!["w0"], vec!["w1"])]
#[case::last_come(FreeChoices::Adversarial, vec!["w1"], vec!["w0"])]
#[tokio::test]
async fn pods_that_wait_together_are_admitted_in_the_chosen_order(
    #[case] free_choices: FreeChoices,
    #[case] second: Vec<&str>,
    #[case] last: Vec<&str>,
) {
    let node = TestNode::with(free_choices);
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 3).await;
    plugin.prefer(["w2"]);
    plugin.script.allocate_may_end.send_replace(false);
    node.bind("a", json!({ "containers": [container("a", 1)] })).await;
    eventually("the first Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    node.bind("b", json!({ "containers": [container("b", 1)] })).await;
    node.bind("c", json!({ "containers": [container("c", 1)] })).await;
    // The kubelet's watch is as fast as this one, and the answer to Allocate still has to cross a socket.
    let deliveries = kube::runtime::watcher(node.pods(), Default::default());
    let delivered = deliveries.try_filter_map(async |event| {
        Ok(if let Event::Apply(pod) | Event::InitApply(pod) = event { pod.metadata.name } else { None })
    });
    let mut third = std::pin::pin!(delivered.try_filter(|name| std::future::ready(name == "c")));
    assert!(within("the third pod", third.next()).await.is_some());
    plugin.prefer(["w0"]);
    plugin.script.allocate_may_end.send_replace(true);
    for pod in ["a", "b", "c"] {
        node.phase(pod, "Running").await;
    }
    let owned = |ids: Vec<&str>| ids.into_iter().map(str::to_owned).collect();
    assert_eq!(ids_of(&kubelet, "a"), ids(["w2"]));
    assert_eq!((ids_of(&kubelet, "b"), ids_of(&kubelet, "c")), (owned(second), owned(last)));
}

#[tokio::test]
async fn the_preferred_ids_are_used_only_as_far_as_they_are_available() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 3).await;
    plugin.prefer(["w2", "other"]);
    node.bind("p", widgets(2)).await;
    node.phase("p", "Running").await;
    let held = ids_of(&kubelet, "main");
    assert!(held.len() == 2 && held.contains("w2") && !held.contains("other"), "{held:?}");
}

#[tokio::test]
async fn the_plugin_is_asked_even_when_all_available_ids_are_needed() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    node.bind("p", widgets(2)).await;
    node.phase("p", "Running").await;
    let all = ids(["w0", "w1"]);
    let preferred = Call::Preferred { available: all.clone(), must: ids([]), size: 2 };
    assert_eq!(plugin.calls(), [preferred, Call::Allocate(all)]);
}
