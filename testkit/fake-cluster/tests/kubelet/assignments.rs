//! `device_plugin_test.go`: which devices containers keep across restarts of pods, kubelets and nodes.

use std::time::{Duration, Instant};

use kubelet_api::deviceplugin::v1beta1::UNHEALTHY;
use serde_json::json;
use testkit_support::eventually;

use crate::test_node::{TestNode, container, ending, ids_of, widgets};
use crate::test_plugin::{TestPlugin, device, ids};

#[tokio::test]
async fn can_schedule_a_pod_that_requires_a_device() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    let mut spec = widgets(2);
    spec["containers"][0]["env"] = json!([{ "name": "SET_BY", "value": "spec" }]);
    node.bind("p", spec).await;
    node.phase("p", "Running").await;

    let start = node.starts("main").remove(0);
    assert_eq!(start.env["WIDGETS"], "w0,w1");
    assert_eq!(start.env["SET_BY"], "spec", "the pod's own variable comes after the plugin's");
    let paths: Vec<&str> = start.devices.iter().map(|device| device.container_path.as_str()).collect();
    assert_eq!(paths, ["/dev/w0", "/dev/w1"]);
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0", "w1"]));
    assert_eq!(plugin.allocations(), 1);
    assert_eq!(node.pods().logs("p", &Default::default()).await.unwrap(), "hello from main");

    node.delete("p").await;
    node.is_gone("p").await;
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    kubelet.stop().await;
}

#[tokio::test]
async fn keeps_device_plugin_assignments_across_pod_restarts() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 8).await;
    node.bind("p", json!({ "containers": [ending(container("main", 1), 5, 1)] })).await;
    node.phase("p", "Running").await;
    let held = ids_of(&kubelet, "main");

    node.clock.advance(Duration::from_secs(5));
    eventually("the restart", async || (node.starts("main").len() == 2).then_some(())).await;

    let starts = node.starts("main");
    assert_eq!(starts[0].env, starts[1].env);
    assert_eq!(ids_of(&kubelet, "main"), held);
    assert_eq!(plugin.allocations(), 1);
    let restarts = async || {
        let status = node.pods().get("p").await.unwrap().status.unwrap();
        (status.container_statuses.unwrap()[0].restart_count == 1).then_some(())
    };
    eventually("the restart to be counted", restarts).await;
}

#[tokio::test]
async fn keeps_device_plugin_assignments_across_kubelet_restarts() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    let held = ids_of(&kubelet, "main");
    kubelet.stop().await;
    drop(plugin);

    node.bind("early", widgets(1)).await;
    let kubelet = node.kubelet().await;
    node.shows("0", "0").await;
    // device_manager_test.go: an admission error while the plugin has not registered again.
    let (reason, message) = node.rejection("early").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices \
         example.com/widget, which is unexpected"
    );
    assert!(!node.plugins_dir().join("widget.sock").exists(), "kubelet clears the folder");

    let plugin = TestPlugin::registered(&node, 2).await;
    node.bind("late", widgets(1)).await;
    node.phase("late", "Running").await;
    assert_eq!(
        node.phase("p", "Running").await.status.unwrap().container_statuses.unwrap()[0].restart_count,
        0
    );
    assert_eq!(plugin.allocations(), 1, "only the new pod is allocated");
    let all: Vec<_> = kubelet.assignments().into_iter().map(|given| given.ids).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], held);
    assert!(all[0].is_disjoint(&all[1]));
}

#[tokio::test]
async fn will_not_attempt_to_admit_the_succeeded_pod_after_the_kubelet_restart() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    node.bind("p", json!({ "restartPolicy": "Never", "containers": [ending(container("main", 1), 0, 0)] }))
        .await;
    node.phase("p", "Succeeded").await;
    kubelet.stop().await;
    drop(plugin);

    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    node.phase("p", "Succeeded").await;
    assert_eq!(plugin.allocations(), 1);
}

#[tokio::test]
async fn pods_deleted_while_kubelet_is_down_are_cleaned_up() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    kubelet.stop().await;
    drop(plugin);
    node.delete("p").await;

    let kubelet = node.kubelet().await;
    node.is_gone("p").await;
    let _plugin = TestPlugin::registered(&node, 1).await;
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    assert_eq!(kubelet.assignments().len(), 1);
}

#[tokio::test]
async fn across_node_reboots_the_pod_fails_admission() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    kubelet.stop().await;
    drop(plugin);
    std::fs::remove_file(node.config.containers_file()).unwrap();

    let _kubelet = node.kubelet().await;
    assert_eq!(node.rejection("p").await.0, "UnexpectedAdmissionError");
}

#[tokio::test]
async fn own_ids_unhealthy_do_not_stop_a_running_pod() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    plugin.script.devices.send_replace(vec![device("w0", UNHEALTHY)]);
    node.shows("0", "1").await;
    node.phase("p", "Running").await;
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0"]));
}

#[tokio::test]
async fn without_a_readable_checkpoint_ids_of_running_containers_are_given_out_again() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.prefer(["w0"]);
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    kubelet.stop().await;
    drop(plugin);
    std::fs::write(node.config.checkpoint_file(), "no checkpoint").unwrap();

    let kubelet = node.kubelet().await;
    node.shows("2", "2").await;
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.prefer(["w0"]);
    node.bind("q", widgets(1)).await;
    node.phase("q", "Running").await;
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0"]));
    node.phase("p", "Running").await;
    assert_eq!(node.ends(), []);
    assert_eq!(kubelet.assignments().len(), 1);
}

#[tokio::test]
async fn an_allocate_that_is_open_when_kubelet_stops_gives_nothing() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 1).await;
    plugin.script.allocate_may_end.send_replace(false);
    node.bind("p", widgets(1)).await;
    eventually("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    let began = Instant::now();
    kubelet.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "stop waited for the open call until its timeout");
    node.phase("p", "Pending").await;
    drop(plugin);

    let kubelet = node.kubelet().await;
    assert_eq!(node.rejection("p").await.0, "UnexpectedAdmissionError");
    assert_eq!(kubelet.assignments(), []);
}
