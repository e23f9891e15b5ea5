//! What a user reads when no node takes a pod: kube-scheduler's text, to the letter.

use fake_cluster::Version;
use rstest::rstest;
use serde_json::json;

use crate::cluster::Cluster;
use crate::fake_extender::{Answer, FakeExtender};

#[rstest]
#[case::v1_34(Version::V1_34, "no new claims to deallocate, ")]
#[case::v1_37(Version::V1_37, "")]
#[tokio::test]
async fn every_node_is_accounted_for(#[case] version: Version, #[case] claims: &str) {
    let cluster = Cluster::of_version(version);
    cluster.node("cordoned", 4, json!({"unschedulable": true})).await;
    cluster.node("tainted", 4, json!({"taints": [{"key": "k", "effect": "NoExecute"}]})).await;
    cluster.node("small", 1, json!({})).await;
    cluster.nodes_named(["n1", "n2", "n3"]).await;
    let extender = FakeExtender::start(|_, _| {
        Answer::Json(json!({"NodeNames": [],
            "FailedNodes": {"n1": "no linked set of 2 devices", "n2": "no linked set of 2 devices", "n3": "both"},
            "FailedAndUnresolvableNodes": {"n3": "of a type that never fits"}}))
    })
    .await;
    let scheduler = cluster.schedule(vec![extender.filter()]);
    cluster.pod("p", 2, json!({})).await;
    let expected = format!(
        "0/6 nodes are available: 1 Insufficient example.com/device, 1 node(s) had untolerated taint(s), \
         1 node(s) were unschedulable, 1 of a type that never fits, 2 no linked set of 2 devices. \
         {claims}preemption: 0/6 nodes are available: \
         2 No preemption victims found for incoming pod, 4 Preemption is not helpful for scheduling."
    );
    let condition = cluster.refused("p").await;
    assert_eq!(condition.message.as_ref(), Some(&expected));
    assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
    let event = cluster.event("p", "FailedScheduling").await;
    assert_eq!(event.note, Some(expected));
    assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Warning"), Some("Scheduling")));
    assert_eq!(event.reporting_controller.as_deref(), Some("s"));
    let pod = event.regarding.unwrap();
    assert_eq!((pod.kind.as_deref(), pod.name.as_deref()), (Some("Pod"), Some("p")));
    scheduler.stop().await;
}

#[tokio::test]
async fn without_nodes_it_says_so() {
    let cluster = Cluster::new();
    let scheduler = cluster.schedule(vec![]);
    cluster.pod("p", 1, json!({})).await;
    let event = cluster.event("p", "FailedScheduling").await;
    assert_eq!(event.note.as_deref(), Some("no nodes available to schedule pods"));
    let condition = cluster.refused("p").await;
    assert_eq!(condition.reason.as_deref(), Some("Unschedulable"));
    scheduler.stop().await;
}

#[tokio::test]
async fn the_event_is_cut_and_the_condition_is_not() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let extender = FakeExtender::start(|_, _| {
        Answer::Json(json!({"NodeNames": [], "FailedNodes": {"n1": "x".repeat(2000)}}))
    })
    .await;
    let scheduler = cluster.schedule(vec![extender.filter()]);
    cluster.pod("p", 1, json!({})).await;
    let note = cluster.event("p", "FailedScheduling").await.note.unwrap();
    assert_eq!((note.len(), note.ends_with("xxx ...")), (1024, true));
    assert!(
        cluster
            .refused("p")
            .await
            .message
            .unwrap()
            .ends_with("1 No preemption victims found for incoming pod.")
    );
    scheduler.stop().await;
}
