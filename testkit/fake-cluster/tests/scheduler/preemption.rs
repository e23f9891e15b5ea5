//! Pods that are ended for a pod of higher priority, with an extender that is asked, as kube-scheduler does it.

use fake_cluster::Version::{self, V1_34, V1_37};
use rstest::rstest;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::cluster::Cluster;
use crate::fake_extender::{Answer, FakeExtender, filter_answer};

/// A pod of this priority that asks for so many devices.
async fn pod(cluster: &Cluster, name: &str, devices: u32, priority: i32) {
    cluster.pod(name, devices, json!({"priority": priority})).await;
}

async fn is_ended(cluster: &Cluster, name: &str) -> Value {
    let ended = async || {
        let pod = cluster.pods().get(name).await.unwrap();
        pod.metadata.deletion_timestamp.as_ref()?;
        Some(serde_json::to_value(pod.status.unwrap().conditions.unwrap_or_default()).unwrap())
    };
    eventually(&format!("{name} to be ended"), ended).await
}

#[rstest]
#[case::v1_34(V1_34, "")]
#[case::v1_37(V1_37, " preemption: found a potential placement for pod on node n1, preempting 1 victims")]
#[tokio::test]
async fn the_less_important_pod_ends_and_the_other_gets_its_place(
    #[case] version: Version,
    #[case] told: &str,
) {
    let cluster = Cluster::of_version(version);
    cluster.nodes_named(["n1"]).await;
    let scheduler = cluster.schedule(vec![]);
    pod(&cluster, "low", 3, 0).await;
    assert_eq!(cluster.bound("low").await, "n1");
    pod(&cluster, "small", 1, 0).await;
    assert_eq!(cluster.bound("small").await, "n1");
    pod(&cluster, "high", 3, 7).await;
    let conditions = is_ended(&cluster, "low").await;
    let disrupted =
        conditions.as_array().unwrap().iter().find(|one| one["type"] == "DisruptionTarget").unwrap();
    assert_eq!(disrupted["message"], "s: preempting to accommodate a higher priority pod");
    let message = cluster.refused("high").await.message.unwrap();
    assert_eq!(message, format!("0/1 nodes are available: 1 Insufficient example.com/device.{told}"));
    let nominated = async || {
        let status = cluster.pods().get("high").await.unwrap().status.unwrap();
        status.nominated_node_name.filter(|node| node == "n1")
    };
    eventually("the nomination", nominated).await;
    let uid = cluster.pods().get("high").await.unwrap().metadata.uid.unwrap();
    let note = cluster.event("low", "Preempted").await.note.unwrap();
    assert_eq!(note, format!("Preempted by pod {uid} on node n1"));
    let waits = "0/1 nodes are available: 1 Insufficient example.com/device.";
    cluster.patch_node("n1", json!({"metadata": {"annotations": {"tried": "again"}}})).await;
    cluster.patch_node_status("n1", json!({"allocatable": {"cpu": "9"}})).await;
    let is_told = async || {
        let message = cluster.refused("high").await.message?;
        let why = "preemption: not eligible due to a terminating pod on the nominated node.";
        (message.starts_with(waits) && message.ends_with(why)).then_some(())
    };
    eventually("the pod to be told that it waits for one that ends", is_told).await;
    // The place is kept for it: one of lower priority does not get it.
    pod(&cluster, "between", 2, 3).await;
    cluster.refused("between").await;
    cluster.delete_pod("low").await;
    assert_eq!(cluster.bound("high").await, "n1");
    assert!(cluster.pods().get("small").await.unwrap().metadata.deletion_timestamp.is_none());
    scheduler.stop().await;
}

#[tokio::test]
async fn an_extender_leaves_out_nodes_and_adds_victims() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1", "n2"]).await;
    // Two on each node; of n2 the extender has both end.
    for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n2"), ("d", "n2")] {
        cluster.pod(name, 2, json!({"priority": 0, "nodeName": node})).await;
    }
    let mut on_n2 = Vec::new();
    for name in ["c", "d"] {
        on_n2.push(json!({"UID": cluster.pods().get(name).await.unwrap().metadata.uid.unwrap()}));
    }
    let extender = FakeExtender::start(move |verb, body| match verb {
        "preempt" => {
            let candidates = body["NodeNameToMetaVictims"].as_object().unwrap();
            let victims = |node: &str| candidates[node]["Pods"].as_array().unwrap().len();
            assert_eq!((victims("n1"), victims("n2")), (1, 1), "{body}");
            Answer::Json(json!({"NodeNameToMetaVictims": {"n2": {"Pods": on_n2}}}))
        }
        _ => filter_answer(body, |_| None),
    })
    .await;
    let scheduler = cluster.schedule(vec![extender.filter().with_preempt("preempt")]);
    pod(&cluster, "high", 2, 1).await;
    for name in ["c", "d"] {
        is_ended(&cluster, name).await;
    }
    scheduler.stop().await;
}

const STRANGER: &str = "claims to preempt pod (UID: &{u}) on node: n1, but the pod is not found on that node";

#[rstest]
#[case::nobody_is_left(json!({}), "no new claims to deallocate, preemption: no candidate node for preemption")]
#[case::no_victim(json!({"n1": {"Pods": []}}), "preemption: expected at least one victim pod on node \"n1\"")]
#[case::a_stranger(json!({"n1": {"Pods": [{"UID": "u"}]}}), STRANGER)]
#[case::no_node(json!({"n9": {"Pods": [{"UID": "u"}]}}), "preemption: nodeinfo not found for node name \"n9\"")]
#[tokio::test]
async fn what_an_extender_says_no_to_ends_nobody(#[case] victims: Value, #[case] why: &str) {
    let cluster = Cluster::of_version(V1_34);
    cluster.nodes_named(["n1"]).await;
    let extender = FakeExtender::start(move |verb, body| match verb {
        "preempt" => Answer::Json(json!({"NodeNameToMetaVictims": victims})),
        _ => filter_answer(body, |_| None),
    })
    .await;
    let scheduler = cluster.schedule(vec![extender.filter().with_preempt("preempt")]);
    pod(&cluster, "low", 4, 0).await;
    cluster.bound("low").await;
    pod(&cluster, "high", 4, 1).await;
    let message = cluster.refused("high").await.message.unwrap();
    let filters = "0/1 nodes are available: 1 Insufficient example.com/device. ";
    let told = message.strip_prefix(filters).unwrap();
    assert!(if why == STRANGER { told.ends_with(why) } else { told == why }, "{message}");
    assert!(cluster.pods().get("low").await.unwrap().metadata.deletion_timestamp.is_none());
    scheduler.stop().await;
}

/// What kube-scheduler never asks an extender: where the count fits, and the extender alone refuses.
#[tokio::test]
async fn an_extender_that_alone_refuses_is_not_asked() {
    let cluster = Cluster::of_version(V1_34);
    cluster.nodes_named(["n1"]).await;
    let extender = FakeExtender::start(|verb, body| match verb {
        "preempt" => Answer::Status(500),
        _ => filter_answer(body, |_| Some("no linked set")),
    })
    .await;
    cluster.pod("low", 1, json!({"priority": 0, "nodeName": "n1"})).await;
    let scheduler = cluster.schedule(vec![extender.filter().with_preempt("preempt")]);
    pod(&cluster, "high", 1, 1).await;
    let expected = "0/1 nodes are available: 1 no linked set. preemption: expected at least one victim pod on node \"n1\"";
    assert_eq!(cluster.refused("high").await.message.unwrap(), expected);
    assert_eq!(extender.bodies("preempt"), Vec::<String>::new());
    scheduler.stop().await;
}

#[tokio::test]
async fn a_pod_that_must_not_preempt_says_so() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let scheduler = cluster.schedule(vec![]);
    pod(&cluster, "low", 4, 0).await;
    cluster.bound("low").await;
    cluster.pod("polite", 4, json!({"priority": 9, "preemptionPolicy": "Never"})).await;
    let message = cluster.refused("polite").await.message.unwrap();
    assert!(message.ends_with("preemption: not eligible due to preemptionPolicy=Never."), "{message}");
    scheduler.stop().await;
}
