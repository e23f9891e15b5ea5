//! Which nodes drop out, where, and why.

use serde_json::json;
use testkit_support::eventually;

use crate::support::{World, bound, pod};

#[tokio::test]
async fn a_mixed_fleet_is_sorted_into_fitting_full_and_hopeless() {
    let world = World::with_nodes(&[
        ("inf1", "inf1.6xlarge"),
        ("inf2", "inf2.48xlarge"),
        ("small", "inf2.xlarge"),
        ("trn", "trn1.32xlarge"),
        ("web", "m5.large"),
    ])
    .await;
    world.node(json!({"metadata": {"name": "bare"}})).await;
    let holder = world.pod("holder", "neuron", 2).await;
    assert_eq!(world.bind(&holder, "inf1").await, "");
    let three = world.pod("three", "neuron", 3).await;
    eventually("the node without a label is known", async || {
        (!world.filter(&three, &["bare"]).await.to_string().contains("knows no node")).then_some(())
    })
    .await;
    let answer = world.filter(&three, &["inf1", "inf2", "small", "trn", "web", "bare", "nowhere"]).await;
    insta::assert_json_snapshot!("mixed_fleet", answer);
}

#[tokio::test]
async fn enough_that_is_not_linked_is_not_enough() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    // Devices 1, 3 and 5 are held by hand: 0, 2 and 4 are free and must not be given together.
    for device in [1, 3, 5] {
        let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": [device]}}});
        let annotations = json!({"neuron-scheduler/allocation": record.to_string()});
        world.create(bound(pod(&format!("held-{device}"), "neuron", 1), "n1", annotations)).await;
    }
    let three = world.pod("three", "neuron", 3).await;
    let refused = "no linked set of 3 free Neuron devices: 3 free, the largest linked set has 1";
    eventually("the three pods are seen", async || {
        (world.filter(&three, &["n1"]).await["FailedNodes"] == json!({"n1": refused})).then_some(())
    })
    .await;
}

#[tokio::test]
async fn filter_writes_nothing() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge"), ("n2", "trn1.32xlarge")]).await;
    let fits = world.pod("fits", "neuron", 1).await;
    let never = world.pod("never", "neuron", 7).await;
    let before = world.everything().await;
    for _ in 0..3 {
        assert!(world.fits(&fits, "n1").await);
        assert!(!world.fits(&never, "n2").await);
        assert!(!world.fits(&never, "nowhere").await);
    }
    // A bind is a write: it shows that writes are seen here, and comes after whatever filter may have sent.
    assert_eq!(world.everything().await, before);
    assert_eq!(world.bind(&fits, "n1").await, "");
    assert_eq!(world.faults.writes(), ["POST /api/v1/namespaces/default/pods/fits/binding"]);
    assert_ne!(world.everything().await, before);
}

#[tokio::test]
async fn a_label_that_contradicts_the_report_closes_the_node_for_now() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let report = json!({"v": 1, "instanceType": "trn1.2xlarge", "lnc": 1,
        "devices": [{"id": 0, "links": [], "health": "Healthy"}], "holders": []});
    world.annotate_node("n1", "neuron-scheduler/devices", &report.to_string()).await;
    let pod = world.pod("one", "neuron", 1).await;
    let refused = "Node label node.kubernetes.io/instance-type says inf2.24xlarge, the node's Neuron device plugin \
                   reports trn1.2xlarge; correct the label";
    eventually("the report is seen", async || {
        (world.filter(&pod, &["n1"]).await["FailedNodes"] == json!({"n1": refused})).then_some(())
    })
    .await;
    world.annotate_node("n1", "neuron-scheduler/devices", "{").await;
    eventually("the broken report is seen", async || {
        let answer = world.filter(&pod, &["n1"]).await;
        let why = answer["FailedNodes"]["n1"].as_str().unwrap_or_default();
        why.starts_with("node annotation neuron-scheduler/devices cannot be read: ").then_some(())
    })
    .await;
}
