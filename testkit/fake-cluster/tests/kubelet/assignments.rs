//! `device_plugin_test.go`: who keeps which device across which restart.

use serde_json::json;

use crate::plugin::{Plugin, ids};
use crate::world::{World, container, ending, ids_of, until, widgets};

#[tokio::test]
async fn can_schedule_a_pod_that_requires_a_device() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 2).await;
    let mut spec = widgets(2);
    spec["containers"][0]["env"] = json!([{ "name": "WHO", "value": "spec" }]);
    world.bind("p", spec).await;
    world.phase("p", "Running").await;

    let start = world.starts("main").remove(0);
    assert_eq!(start.env["WIDGETS"], "w0,w1");
    assert_eq!(start.env["WHO"], "spec", "the pod's own variable comes after the plugin's");
    let paths: Vec<&str> = start.devices.iter().map(|device| device.container_path.as_str()).collect();
    assert_eq!(paths, ["/dev/w0", "/dev/w1"]);
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0", "w1"]));
    assert_eq!(plugin.allocations(), 1);
    assert_eq!(world.pods().logs("p", &Default::default()).await.unwrap(), "hello from main");

    world.delete("p").await;
    world.is_gone("p").await;
    world.bind("q", widgets(1)).await;
    world.phase("q", "Running").await;
    kubelet.stop().await;
}

#[tokio::test]
async fn keeps_device_plugin_assignments_across_pod_restarts() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 8).await;
    world.bind("p", json!({ "containers": [ending(container("main", 1), 5, 1)] })).await;
    world.phase("p", "Running").await;
    let held = ids_of(&kubelet, "main");

    world.clock.advance(std::time::Duration::from_secs(5));
    until("the restart", async || (world.starts("main").len() == 2).then_some(())).await;

    let starts = world.starts("main");
    assert_eq!(starts[0].env, starts[1].env);
    assert_eq!(ids_of(&kubelet, "main"), held);
    assert_eq!(plugin.allocations(), 1);
    let restarts = async || {
        let status = world.pods().get("p").await.unwrap().status.unwrap();
        (status.container_statuses.unwrap()[0].restart_count == 1).then_some(())
    };
    until("the restart to be counted", restarts).await;
}

#[tokio::test]
async fn keeps_device_plugin_assignments_across_kubelet_restarts() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 2).await;
    world.bind("p", widgets(1)).await;
    world.phase("p", "Running").await;
    let held = ids_of(&kubelet, "main");
    kubelet.stop().await;
    drop(plugin);

    world.bind("early", widgets(1)).await;
    let kubelet = world.kubelet().await;
    world.node_shows("0", "0").await;
    // device_manager_test.go: an admission error while the plugin has not registered again.
    let (reason, message) = world.rejection("early").await;
    assert_eq!(reason, "UnexpectedAdmissionError");
    assert_eq!(
        message,
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices \
         example.com/widget, which is unexpected"
    );
    assert!(!world.plugins_dir().join("widget.sock").exists(), "kubelet clears the folder");

    let plugin = Plugin::registered(&world, 2).await;
    world.bind("late", widgets(1)).await;
    world.phase("late", "Running").await;
    assert_eq!(
        world.phase("p", "Running").await.status.unwrap().container_statuses.unwrap()[0].restart_count,
        0
    );
    assert_eq!(plugin.allocations(), 1, "only the new pod is allocated");
    let all: Vec<_> = kubelet.holdings().into_iter().map(|held| held.ids).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(all[0], held);
    assert!(all[0].is_disjoint(&all[1]));
}

#[tokio::test]
async fn will_not_attempt_to_admit_the_succeeded_pod_after_the_kubelet_restart() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    world
        .bind("p", json!({ "restartPolicy": "Never", "containers": [ending(container("main", 1), 0, 0)] }))
        .await;
    world.phase("p", "Succeeded").await;
    kubelet.stop().await;
    drop(plugin);

    let _kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    world.bind("q", widgets(1)).await;
    world.phase("q", "Running").await;
    world.phase("p", "Succeeded").await;
    assert_eq!(plugin.allocations(), 1);
}

#[tokio::test]
async fn pods_deleted_while_kubelet_is_down_are_cleaned_up() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    world.bind("p", widgets(1)).await;
    world.phase("p", "Running").await;
    kubelet.stop().await;
    drop(plugin);
    world.delete("p").await;

    let kubelet = world.kubelet().await;
    world.is_gone("p").await;
    let _plugin = Plugin::registered(&world, 1).await;
    world.bind("q", widgets(1)).await;
    world.phase("q", "Running").await;
    assert_eq!(kubelet.holdings().len(), 1);
}

#[tokio::test]
async fn across_node_reboots_the_pod_fails_admission() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    world.bind("p", widgets(1)).await;
    world.phase("p", "Running").await;
    kubelet.stop().await;
    drop(plugin);
    std::fs::remove_file(world.config.containers_file()).unwrap();

    let _kubelet = world.kubelet().await;
    assert_eq!(world.rejection("p").await.0, "UnexpectedAdmissionError");
}

#[tokio::test]
async fn own_ids_unhealthy_do_not_stop_a_running_pod() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    world.bind("p", widgets(1)).await;
    world.phase("p", "Running").await;
    plugin.brain.devices.send_replace(Vec::new());
    world.node_shows("0", "0").await;
    world.phase("p", "Running").await;
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0"]));
}

#[tokio::test]
async fn an_allocate_that_is_open_when_kubelet_stops_gives_nothing() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    let plugin = Plugin::registered(&world, 1).await;
    plugin.brain.allocate_may_end.send_replace(false);
    world.bind("p", widgets(1)).await;
    until("the open Allocate", async || (plugin.allocations() == 1).then_some(())).await;
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(2), kubelet.stop()).await;
    assert!(stopped.is_ok(), "stopping waits for no plugin");
    world.phase("p", "Pending").await;
    drop(plugin);

    let kubelet = world.kubelet().await;
    assert_eq!(world.rejection("p").await.0, "UnexpectedAdmissionError");
    assert_eq!(kubelet.holdings(), []);
}
