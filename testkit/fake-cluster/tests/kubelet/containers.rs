//! The life of a pod's containers, and what its status says.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use crate::world::{World, container, ending, until};

#[rstest]
#[case::success("Never", 0, "Succeeded")]
#[case::failure("Never", 3, "Failed")]
#[case::enough("OnFailure", 0, "Succeeded")]
#[tokio::test]
async fn a_pod_ends_with_its_containers(#[case] policy: &str, #[case] code: i32, #[case] phase: &str) {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let mut sidecar = container("side", 0);
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "restartPolicy": policy,
        "initContainers": [sidecar],
        "containers": [ending(container("main", 0), 30, code)],
    });
    world.bind("p", spec).await;
    let running = world.phase("p", "Running").await.status.unwrap();
    let ready = running.conditions.unwrap().into_iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.status, "True");
    world.clock.advance(Duration::from_secs(30));
    let ended = world.phase("p", phase).await.status.unwrap();
    let state = ended.container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
    assert_eq!(state.exit_code, code);
}

#[tokio::test]
async fn init_containers_run_one_after_another_before_the_apps() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    let spec = json!({
        "initContainers": [ending(container("one", 0), 10, 0), ending(container("two", 0), 10, 0)],
        "containers": [container("main", 0)],
    });
    world.bind("p", spec).await;
    until("the first", async || (world.starts("one").len() == 1).then_some(())).await;
    assert_eq!((world.starts("two").len(), world.starts("main").len()), (0, 0));
    world.phase("p", "Pending").await;
    world.clock.advance(Duration::from_secs(10));
    until("the second", async || (world.starts("two").len() == 1).then_some(())).await;
    assert_eq!(world.starts("main").len(), 0);
    world.clock.advance(Duration::from_secs(10));
    world.phase("p", "Running").await;
}

#[tokio::test]
async fn containers_end_while_kubelet_is_down_and_are_found_ended() {
    let world = World::new();
    let kubelet = world.kubelet().await;
    world
        .bind("p", json!({ "restartPolicy": "Never", "containers": [ending(container("main", 0), 10, 2)] }))
        .await;
    world.phase("p", "Running").await;
    kubelet.stop().await;
    world.clock.advance(Duration::from_secs(10));
    world.phase("p", "Running").await;
    let _kubelet = world.kubelet().await;
    world.phase("p", "Failed").await;
    assert_eq!(world.starts("main").len(), 1);
}

#[tokio::test]
async fn a_restart_that_fails_again_waits_longer() {
    let world = World::new();
    let _kubelet = world.kubelet().await;
    world.bind("p", json!({ "containers": [ending(container("main", 0), 0, 1)] })).await;
    let backing_off = async || {
        let status = world.pods().get("p").await.unwrap().status?;
        let waiting = status.container_statuses?.remove(0).state?.waiting?;
        (waiting.reason.as_deref() == Some("CrashLoopBackOff")).then_some(())
    };
    until("the back-off", backing_off).await;
    assert_eq!(world.starts("main").len(), 2, "the first restart comes at once");
    world.clock.advance(Duration::from_secs(10));
    until("the second restart", async || (world.starts("main").len() == 3).then_some(())).await;
}
