//! Who binds, what a failed bind leaves behind, and how the scheduler stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fake_cluster::scheduler::ExtenderConfig;
use kube::ResourceExt;
use serde_json::{Value, json};
use testkit_support::{eventually, within};
use tokio::sync::Notify;

use crate::cluster::{Cluster, DEVICE};
use crate::fake_extender::{Answer, FakeExtender, filter_answer};

/// Passes every node; answers binds as given.
async fn binder(bind: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> FakeExtender {
    FakeExtender::start(move |verb, body| match verb {
        "bind" => bind(body),
        _ => filter_answer(body, |_| None),
    })
    .await
}

#[tokio::test]
async fn pods_that_ask_for_nothing_managed_are_bound_by_the_scheduler_itself() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let extender = binder(|_| Answer::Status(500)).await;
    let scheduler = cluster.schedule(vec![extender.binder()]);
    cluster.pod("p", 0, json!({})).await;
    assert_eq!(cluster.bound("p").await, "n1");
    let event = cluster.event("p", "Scheduled").await;
    assert_eq!(event.note.as_deref(), Some("Successfully assigned default/p to n1"));
    assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Normal"), Some("Binding")));
    assert_eq!(event.reporting_controller.as_deref(), Some("s"));
    assert!(extender.bodies("bind").is_empty());
    scheduler.stop().await;
}

#[tokio::test]
async fn a_binder_is_sent_the_pods_name_namespace_uid_and_node() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let extender = binder(|_| Answer::Json(json!({"Error": ""}))).await;
    let scheduler = cluster.schedule(vec![extender.binder()]);
    cluster.pod("p", 1, json!({})).await;
    cluster.event("p", "Scheduled").await;
    let uid = cluster.pods().get("p").await.unwrap().uid().unwrap();
    let expected = format!(r#"{{"PodName":"p","PodNamespace":"default","PodUID":"{uid}","Node":"n1"}}"#);
    assert_eq!(extender.bodies("bind"), [expected]);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_failed_bind_is_reported_frees_its_node_and_is_tried_again_after_a_second() {
    let cluster = Cluster::new();
    cluster.node("n1", 1, json!({})).await;
    let extender = binder(|_| Answer::Json(json!({"Error": "n1 was filled meanwhile"}))).await;
    let scheduler = cluster.schedule(vec![extender.binder()]);
    cluster.pod("first", 1, json!({})).await;
    let condition = cluster.refused("first").await;
    assert_eq!(condition.message.as_deref(), Some("n1 was filled meanwhile"));
    assert_eq!(condition.reason.as_deref(), Some("SchedulerError"));
    let event = cluster.event("first", "FailedScheduling").await;
    assert_eq!(event.note.as_deref(), Some("n1 was filled meanwhile"));
    assert_eq!((event.type_.as_deref(), event.action.as_deref()), (Some("Warning"), Some("Scheduling")));

    // The one device counts as free again: another pod gets as far as its bind.
    cluster.pod("second", 1, json!({})).await;
    assert_eq!(cluster.refused("second").await.message.as_deref(), Some("n1 was filled meanwhile"));
    assert_eq!(extender.bodies("bind").len(), 2);

    cluster.clock.advance(Duration::from_secs(1));
    eventually("both binds again", async || (extender.bodies("bind").len() == 4).then_some(())).await;
    scheduler.stop().await;
}

#[tokio::test]
async fn an_assumed_pod_counts_before_it_is_bound() {
    let cluster = Cluster::new();
    cluster.node("n1", 1, json!({})).await;
    let extender = binder(|_| Answer::Never).await;
    let scheduler = cluster.schedule(vec![extender.binder()]);
    cluster.pod("first", 1, json!({})).await;
    cluster.pod("second", 1, json!({})).await;
    let message = cluster.refused("second").await.message.unwrap();
    assert!(message.starts_with(&format!("0/1 nodes are available: 1 Insufficient {DEVICE}. ")), "{message}");
    scheduler.stop().await;
}

#[tokio::test]
async fn an_ignorable_binder_that_fails_is_bypassed() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let extender = binder(|_| Answer::Status(500)).await;
    let scheduler = cluster.schedule(vec![ExtenderConfig { ignorable: true, ..extender.binder() }]);
    cluster.pod("p", 1, json!({})).await;
    assert_eq!(cluster.bound("p").await, "n1");
    assert_eq!(extender.bodies("bind").len(), 1);
    scheduler.stop().await;
}

#[tokio::test]
async fn stop_ends_a_call_under_way_and_a_new_start_goes_on() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let (hang, called) = (Arc::new(AtomicBool::new(true)), Arc::new(Notify::new()));
    let (hangs, notify) = (hang.clone(), called.clone());
    let extender = FakeExtender::start(move |_, body| {
        notify.notify_one();
        if hangs.load(Ordering::SeqCst) { Answer::Never } else { filter_answer(body, |_| None) }
    })
    .await;
    let filter = extender.filter();
    let scheduler = cluster.schedule(vec![filter.clone()]);
    cluster.pod("p", 1, json!({})).await;
    within("the call", called.notified()).await;
    let began = Instant::now();
    scheduler.stop().await;
    assert!(began.elapsed() < filter.http_timeout, "stop waited for the call until its timeout");
    hang.store(false, Ordering::SeqCst);
    let scheduler = cluster.schedule(vec![filter]);
    assert_eq!(cluster.bound("p").await, "n1");
    scheduler.stop().await;
}
