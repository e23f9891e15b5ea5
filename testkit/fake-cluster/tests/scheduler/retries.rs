//! When a refused pod is tried again: after each kind of event, and after five minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::fake_extender::{FakeExtender, filter_answer};

#[rstest]
#[case::deleted(true)]
#[case::terminal(false)]
#[tokio::test]
async fn the_end_of_a_pod_on_the_node_lets_another_in(#[case] deleted: bool) {
    let cluster = Cluster::new();
    cluster.node("n1", 1, json!({})).await;
    let scheduler = cluster.schedule(vec![]);
    cluster.pod("first", 1, json!({})).await;
    cluster.bound("first").await;
    cluster.pod("second", 1, json!({})).await;
    cluster.refused("second").await;
    if deleted {
        cluster.delete_pod("first").await;
    } else {
        let done = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
        cluster.pods().patch_status("first", &PatchParams::default(), &done).await.unwrap();
    }
    assert_eq!(cluster.bound("second").await, "n1");
    scheduler.stop().await;
}

#[rstest]
#[case::allocatable(json!({}), json!({}), json!({}), json!({"allocatable": {"example.com/device": "8"}}), 8)]
#[case::labels(json!({}), json!({"nodeSelector": {"zone": "a"}}),
    json!({"metadata": {"labels": {"zone": "a"}}}), json!({}), 1)]
#[case::taints(json!({"taints": [{"key": "k", "effect": "NoSchedule"}]}), json!({}),
    json!({"spec": {"taints": null}}), json!({}), 1)]
#[case::unschedulable(json!({"unschedulable": true}), json!({}),
    json!({"spec": {"unschedulable": null}}), json!({}), 1)]
#[tokio::test]
async fn a_node_that_changes_is_tried_again(
    #[case] node: Value,
    #[case] pod: Value,
    #[case] patch: Value,
    #[case] status: Value,
    #[case] devices: u32,
) {
    let cluster = Cluster::new();
    cluster.node("n1", 4, node).await;
    let scheduler = cluster.schedule(vec![]);
    cluster.pod("p", devices, pod).await;
    cluster.refused("p").await;
    if status == json!({}) {
        cluster.patch_node("n1", patch).await;
    } else {
        cluster.patch_node_status("n1", status).await;
    }
    assert_eq!(cluster.bound("p").await, "n1");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_new_node_is_tried() {
    let cluster = Cluster::new();
    cluster.node("n1", 0, json!({})).await;
    let scheduler = cluster.schedule(vec![]);
    cluster.pod("p", 1, json!({})).await;
    cluster.refused("p").await;
    cluster.node("n2", 4, json!({})).await;
    assert_eq!(cluster.bound("p").await, "n2");
    scheduler.stop().await;
}

/// What changes after the extender would answer otherwise.
#[derive(Clone, Copy)]
enum Change {
    NodeAnnotation,
    NodeCondition,
    PodAnnotation,
    FiveMinutes,
}

#[rstest]
#[case::node_annotation(Change::NodeAnnotation)]
#[case::node_condition(Change::NodeCondition)]
#[case::pod_updated(Change::PodAnnotation)]
#[case::five_minutes(Change::FiveMinutes)]
#[tokio::test]
async fn after_an_extender_refused_any_change_counts(#[case] change: Change) {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let full = Arc::new(AtomicBool::new(true));
    let is_full = full.clone();
    let extender = FakeExtender::start(move |_, body| {
        filter_answer(body, |_| is_full.load(Ordering::SeqCst).then_some("full"))
    })
    .await;
    let scheduler = cluster.schedule(vec![extender.filter()]);
    cluster.pod("p", 1, json!({})).await;
    cluster.refused("p").await;
    full.store(false, Ordering::SeqCst);
    let annotated = json!({"metadata": {"annotations": {"example.com/note": "1"}}});
    match change {
        Change::NodeAnnotation => cluster.patch_node("n1", annotated).await,
        Change::NodeCondition => {
            let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            cluster.patch_node_status("n1", ready).await;
        }
        Change::PodAnnotation => {
            let patch = Patch::Merge(annotated);
            cluster.pods().patch("p", &PatchParams::default(), &patch).await.unwrap();
        }
        Change::FiveMinutes => cluster.clock.advance(Duration::from_secs(300)),
    }
    assert_eq!(cluster.bound("p").await, "n1");
    scheduler.stop().await;
}

#[tokio::test]
async fn higher_priority_goes_first_when_there_is_room_for_one() {
    let cluster = Cluster::new();
    cluster.node("n1", 1, json!({})).await;
    cluster.pod("low", 1, json!({"priority": 1})).await;
    cluster.pod("high", 1, json!({"priority": 2})).await;
    let scheduler = cluster.schedule(vec![]);
    assert_eq!(cluster.bound("high").await, "n1");
    cluster.refused("low").await;
    scheduler.stop().await;
}

#[tokio::test]
async fn pods_of_another_scheduler_are_left_alone() {
    let cluster = Cluster::new();
    cluster.node("n1", 1, json!({})).await;
    cluster.pod("other", 1, json!({"schedulerName": "someone-else"})).await;
    let scheduler = cluster.schedule(vec![]);
    cluster.pod("ours", 1, json!({})).await;
    cluster.bound("ours").await;
    let other = cluster.pods().get("other").await.unwrap();
    assert_eq!(other.spec.unwrap().node_name, None);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_deletion_that_the_watch_missed_is_found_by_its_relist() {
    let cluster = Cluster::new();
    cluster.node("n1", 1, json!({})).await;
    let scheduler = cluster.schedule(vec![]);
    cluster.pod("first", 1, json!({})).await;
    cluster.bound("first").await;
    cluster.pod("second", 1, json!({})).await;
    cluster.refused("second").await;
    cluster.api.set_available(false);
    cluster.api.set_available(true);
    cluster.delete_pod("first").await;
    cluster.api.compact();
    assert_eq!(cluster.bound("second").await, "n1");
    scheduler.stop().await;
}
