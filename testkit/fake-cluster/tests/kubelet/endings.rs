//! How containers end: by themselves, with their pod's grace, and when its object is gone.

use std::time::Duration;

use serde_json::{Value, json};
use testkit_support::eventually;

use crate::test_node::{TestNode, container, ids_of, widgets};
use crate::test_plugin::{TestPlugin, ids};

/// A pod with a widget whose container takes so many seconds to end after SIGTERM.
fn reluctant(seconds: u32) -> Value {
    let mut spec = widgets(1);
    spec["containers"][0]["args"] = json!(["never", "0", seconds.to_string()]);
    spec
}

fn seconds(node: &TestNode, seconds: u64) {
    node.clock.advance(Duration::from_secs(seconds));
}

/// Waits until kubelet has sent SIGTERM to the container that it is about to end: its file says when.
async fn terminating(node: &TestNode) {
    eventually("SIGTERM", async || {
        let file = std::fs::read_to_string(node.config.containers_file()).unwrap();
        (!file.contains("\"ends\":null")).then_some(())
    })
    .await;
}

/// A node with so many widgets, and the pod `p` on it, which takes so many seconds to end after SIGTERM.
async fn running(node: &TestNode, count: usize, termination: u32) -> TestPlugin {
    let plugin = TestPlugin::registered(node, count).await;
    node.bind("p", reluctant(termination)).await;
    node.phase("p", "Running").await;
    plugin
}

#[tokio::test]
async fn a_container_that_takes_all_of_its_grace_is_killed_when_it_is_over() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let _plugin = running(&node, 1, 60).await;
    node.delete_within("p", 10).await;
    terminating(&node).await;
    seconds(&node, 9);
    // Neither the pod nor its devices are free before.
    node.bind("q", widgets(1)).await;
    assert_eq!(node.rejection("q").await.0, "UnexpectedAdmissionError");
    assert!(node.pods().get_opt("p").await.unwrap().is_some());
    assert_eq!(node.ends(), []);
    seconds(&node, 1);
    assert_eq!(node.first_end().await, (10, 137));
    node.is_gone("p").await;
    node.bind("r", widgets(1)).await;
    node.phase("r", "Running").await;
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0"]));
}

#[tokio::test]
async fn a_container_that_needs_less_than_its_grace_ends_when_it_is_done() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let _plugin = running(&node, 1, 4).await;
    node.delete_within("p", 10).await;
    terminating(&node).await;
    seconds(&node, 4);
    assert_eq!(node.first_end().await, (4, 0));
    node.is_gone("p").await;
    let end = node.ends().remove(0).container;
    assert_eq!((end.pod_name.as_str(), end.env["WIDGETS"].as_str()), ("p", "w0"));
    assert_eq!(end.ids["example.com/widget"], ids(["w0"]));
}

#[tokio::test]
async fn a_second_deletion_shortens_the_grace() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let _plugin = running(&node, 1, 60).await;
    node.delete_within("p", 50).await;
    terminating(&node).await;
    seconds(&node, 5);
    let deadline = std::fs::read_to_string(node.config.containers_file()).unwrap();
    node.delete_within("p", 10).await;
    eventually("another deadline", async || {
        let file = std::fs::read_to_string(node.config.containers_file()).unwrap();
        (file != deadline).then_some(())
    })
    .await;
    seconds(&node, 10);
    assert_eq!(node.first_end().await, (15, 137));
}

#[tokio::test]
async fn of_a_pod_deleted_by_force_the_ids_are_free_while_its_container_still_runs() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let _plugin = running(&node, 1, 60).await;
    node.delete_within("p", 0).await;
    assert!(node.pods().get_opt("p").await.unwrap().is_none());
    terminating(&node).await;
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0"]));
    assert_eq!(node.assigned(), kubelet.assignments());
    seconds(&node, 29);
    assert_eq!(node.ends(), []);
    seconds(&node, 1);
    // The pod's own grace, which is 30 s by default.
    assert_eq!(node.first_end().await, (30, 137));
    assert_eq!(node.ends()[0].container.pod_name, "p");
    node.phase("q", "Running").await;
}

#[tokio::test]
async fn a_pod_that_is_missing_in_a_list_is_gone_as_well() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let _plugin = running(&node, 1, 60).await;
    // The watch ends, and cannot go on where it was.
    node.api.set_available(false);
    node.api.set_available(true);
    node.delete_within("p", 0).await;
    node.api.compact();
    terminating(&node).await;
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    assert_eq!(node.ends(), []);
    seconds(&node, 30);
    assert_eq!(node.first_end().await, (30, 137));
}

#[tokio::test]
async fn a_pod_deleted_by_force_while_it_ends_keeps_the_grace_that_it_had() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let _plugin = running(&node, 1, 60).await;
    node.delete_within("p", 20).await;
    terminating(&node).await;
    seconds(&node, 10);
    node.delete_within("p", 0).await;
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    seconds(&node, 10);
    assert_eq!(node.first_end().await, (20, 137));
}

#[tokio::test]
async fn an_end_is_told_when_it_comes_and_once() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let mut ending = container("main", 0);
    ending["args"] = json!(["10", "3"]);
    node.bind("p", json!({ "restartPolicy": "Never", "containers": [ending] })).await;
    node.phase("p", "Running").await;
    seconds(&node, 9);
    assert_eq!(node.ends(), []);
    seconds(&node, 1);
    assert_eq!(node.first_end().await, (10, 3));
    node.phase("p", "Failed").await;
    kubelet.stop().await;
    let _kubelet = node.kubelet().await;
    node.delete("p").await;
    node.is_gone("p").await;
    assert_eq!(node.ends().len(), 1);
}

#[tokio::test]
async fn an_end_without_a_kubelet_is_told_by_the_next() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let mut ending = container("main", 0);
    ending["args"] = json!(["10", "3"]);
    node.bind("p", json!({ "restartPolicy": "Never", "containers": [ending] })).await;
    node.phase("p", "Running").await;
    kubelet.stop().await;
    seconds(&node, 60);
    assert_eq!(node.ends(), []);
    let _kubelet = node.kubelet().await;
    assert_eq!(node.first_end().await, (10, 3));
}

#[tokio::test]
async fn containers_that_no_pod_knows_any_more_get_the_shortest_grace() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = running(&node, 1, 60).await;
    kubelet.stop().await;
    drop(plugin);
    node.delete_within("p", 0).await;
    let _kubelet = node.kubelet().await;
    terminating(&node).await;
    seconds(&node, 2);
    assert_eq!(node.first_end().await, (2, 137));
    eventually("the container to be forgotten", async || {
        let file = std::fs::read_to_string(node.config.containers_file()).unwrap();
        (file == "{}").then_some(())
    })
    .await;
}
