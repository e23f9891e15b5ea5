//! What a pod's containers do one after another, and what its status says.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;

use crate::test_node::{TestNode, container, ending};

#[rstest]
#[case::success("Never", 0, "Succeeded")]
#[case::failure("Never", 3, "Failed")]
#[case::enough("OnFailure", 0, "Succeeded")]
#[tokio::test]
async fn a_pod_ends_with_its_containers(#[case] policy: &str, #[case] code: i32, #[case] phase: &str) {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let mut sidecar = container("side", 0);
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "restartPolicy": policy,
        "initContainers": [sidecar],
        "containers": [ending(container("main", 0), 30, code)],
    });
    node.bind("p", spec).await;
    let running = node.phase("p", "Running").await.status.unwrap();
    let ready = running.conditions.unwrap().into_iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert_eq!(ready.status, "True");
    node.clock.advance(Duration::from_secs(30));
    let ended = node.phase("p", phase).await.status.unwrap();
    let state = ended.container_statuses.unwrap().remove(0).state.unwrap().terminated.unwrap();
    assert_eq!(state.exit_code, code);
}

#[tokio::test]
async fn init_containers_run_one_after_another_before_the_apps() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let spec = json!({
        "initContainers": [ending(container("one", 0), 10, 0), ending(container("two", 0), 10, 0)],
        "containers": [container("main", 0)],
    });
    node.bind("p", spec).await;
    eventually("the first", async || (node.starts("one").len() == 1).then_some(())).await;
    assert_eq!((node.starts("two").len(), node.starts("main").len()), (0, 0));
    node.phase("p", "Pending").await;
    node.clock.advance(Duration::from_secs(10));
    eventually("the second", async || (node.starts("two").len() == 1).then_some(())).await;
    assert_eq!(node.starts("main").len(), 0);
    node.clock.advance(Duration::from_secs(10));
    node.phase("p", "Running").await;
}

#[tokio::test]
async fn containers_end_while_kubelet_is_down_and_are_found_ended() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    node.bind("p", json!({ "restartPolicy": "Never", "containers": [ending(container("main", 0), 10, 2)] }))
        .await;
    node.phase("p", "Running").await;
    kubelet.stop().await;
    node.clock.advance(Duration::from_secs(10));
    node.phase("p", "Running").await;
    let _kubelet = node.kubelet().await;
    node.phase("p", "Failed").await;
    assert_eq!(node.starts("main").len(), 1);
}

#[tokio::test]
async fn a_restart_that_fails_again_waits_longer() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    node.bind("p", json!({ "containers": [ending(container("main", 0), 0, 1)] })).await;
    let backing_off = async || {
        let status = node.pods().get("p").await.unwrap().status?;
        let waiting = status.container_statuses?.remove(0).state?.waiting?;
        (waiting.reason.as_deref() == Some("CrashLoopBackOff")).then_some(())
    };
    eventually("the back-off", backing_off).await;
    assert_eq!(node.starts("main").len(), 2, "the first restart comes at once");
    node.clock.advance(Duration::from_secs(10));
    eventually("the second restart", async || (node.starts("main").len() == 3).then_some(())).await;
}
