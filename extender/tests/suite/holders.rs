//! Who holds devices: what the watch shows, loses and must not believe.

use std::time::Duration;

use kube::api::DeleteParams;
use neuron_extender::Config;
use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;

use crate::support::{World, bound, pod};

#[tokio::test]
async fn a_deletion_that_the_watch_missed_frees() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let (held, next) = (world.pod("held", "neuron", 1).await, world.pod("next", "neuron", 1).await);
    assert_eq!(world.bind(&held, "n1").await, "");
    eventually("the pod is bound in the watch", async || (!world.fits(&next, "n1").await).then_some(()))
        .await;
    world.faults.disconnect_watches(true);
    world.api.set_available(false);
    world.api.set_available(true);
    world.delete("held").await;
    world.api.compact();
    assert!(!world.fits(&next, "n1").await);
    world.faults.disconnect_watches(false);
    eventually("the list has freed the device", async || world.fits(&next, "n1").await.then_some(())).await;
}

#[tokio::test]
async fn a_pod_is_not_refused_for_what_may_have_changed_while_the_watch_was_disconnected() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let (held, next) = (world.pod("held", "neuron", 1).await, world.pod("next", "neuron", 1).await);
    assert_eq!(world.bind(&held, "n1").await, "");
    assert_ne!(world.filter(&next, &["n1"]).await["FailedNodes"], json!({}));
    world.faults.disconnect_watches(true);
    world.api.set_available(false);
    world.api.set_available(true);
    world.delete("held").await;
    eventually("the scheduler is told to try again", async || {
        let answer = world.filter(&next, &["n1"]).await;
        (answer["Error"]
            == "the watch of pods and nodes is disconnected, so what is free is not known; it is being taken up again"
            && answer["FailedNodes"] == json!({}))
        .then_some(())
    })
    .await;
    world.faults.disconnect_watches(false);
    eventually("the device is free", async || world.fits(&next, "n1").await.then_some(())).await;
}

#[rstest]
#[case::succeeded("Succeeded")]
#[case::failed("Failed")]
#[tokio::test]
async fn a_pod_that_ended_holds_nothing(#[case] phase: &str) {
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let (held, next) = (world.pod("held", "neuron", 1).await, world.pod("next", "neuron", 1).await);
    assert_eq!(world.bind(&held, "n1").await, "");
    assert!(!world.fits(&next, "n1").await);
    world.phase("held", phase).await;
    eventually("the device is free", async || world.fits(&next, "n1").await.then_some(())).await;
}

#[tokio::test]
async fn a_terminating_pod_still_holds() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge"), ("n2", "inf2.xlarge")]).await;
    let (held, next) = (world.pod("held", "neuron", 1).await, world.pod("next", "neuron", 1).await);
    let marker = world.pod("marker", "neuron", 1).await;
    assert_eq!(world.bind(&held, "n1").await, "");
    assert_eq!(world.bind(&marker, "n2").await, "");
    // Bound, so it waits for kubelet, which is not there.
    world.pods().delete("held", &DeleteParams::default()).await.unwrap();
    world.delete("marker").await;
    eventually("the watch has shown both", async || world.fits(&next, "n2").await.then_some(())).await;
    assert!(!world.fits(&next, "n1").await);
}

#[tokio::test]
async fn a_record_on_a_pod_that_is_not_bound_holds_nothing() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let mut forged = pod("forged", "neuron", 1);
    let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": [0]}}});
    forged["metadata"]["annotations"] = json!({"neuron-scheduler/allocation": record.to_string()});
    world.create(forged).await;
    let next = world.pod("next", "neuron", 1).await;
    assert_eq!(world.bind(&next, "n1").await, "");
    assert_eq!(world.placed("next").await.1.as_deref(), Some("0"));
}

#[tokio::test]
async fn a_holder_that_is_reported_soon_is_told_nothing() {
    let config = Config { event_delay: Duration::from_secs(1), ..Config::default() };
    let world = World::configured(config, &[("n1", "inf2.24xlarge")]).await;
    let by_hand = world.create(bound(pod("by-hand", "neuron", 1), "n1", json!({}))).await;
    let next = world.pod("next", "neuron", 6).await;
    eventually("the pod is seen", async || (!world.fits(&next, "n1").await).then_some(())).await;
    let devices: Vec<_> = (0..6).map(|id| json!({"id": id, "links": [], "health": "Healthy"})).collect();
    let holder = json!({"pod": "default/by-hand", "uid": by_hand.metadata.uid, "cores": [0, 1]});
    let report =
        json!({"v": 1, "instanceType": "inf2.24xlarge", "lnc": 1, "devices": devices, "holders": [holder]});
    world.annotate_node("n1", "neuron-scheduler/devices", &report.to_string()).await;
    // Bound without a report later, it tells when the first pod's time is over too.
    world.create(bound(pod("unknown", "neuron", 1), "n1", json!({}))).await;
    eventually("the other's event is there", async || {
        (!world.notes("NeuronHolderUnknown").await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(world.notes("NeuronHolderUnknown").await.len(), 1);
}

#[tokio::test]
async fn a_forged_record_on_a_pod_bound_by_hand_closes_the_node_until_the_report() {
    let config = Config { event_delay: Duration::from_millis(300), ..Config::default() };
    let world = World::configured(config, &[("n1", "inf2.24xlarge")]).await;
    let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": [0, 1, 2]}}});
    let annotations = json!({"neuron-scheduler/allocation": record.to_string()});
    let forged = world.create(bound(pod("forged", "neuron", 1), "n1", annotations)).await;
    let next = world.pod("next", "neuron", 1).await;
    let refused = "it is not known yet which devices pod default/forged holds; the node takes no new Neuron pod until its \
                   device plugin reports it";
    eventually("the pod is seen", async || {
        (world.filter(&next, &["n1"]).await["Error"] == json!(format!("n1: {refused}"))).then_some(())
    })
    .await;
    assert_eq!(world.bind(&next, "n1").await, refused);
    eventually("both events are there", async || {
        (world.notes("NeuronRecordIgnored").await.len() == 1
            && world.notes("NeuronHolderUnknown").await.len() == 1)
            .then_some(())
    })
    .await;
    assert_eq!(
        world.notes("NeuronRecordIgnored").await,
        [
            "The pod's Neuron allocation record does not count: it gives container main 3 device(s), the container asks \
          for 1; recreate the pod"
        ]
    );
    assert_eq!(
        world.notes("NeuronHolderUnknown").await,
        [
            "It is not known which Neuron devices this pod holds. Node n1 takes no new Neuron pod until its device plugin \
          reports it or the pod is deleted."
        ]
    );
    let devices: Vec<_> = (0..6).map(|id| json!({"id": id, "links": [], "health": "Healthy"})).collect();
    let holder = json!({"pod": "default/forged", "uid": forged.metadata.uid, "cores": [0, 1]});
    let report =
        json!({"v": 1, "instanceType": "inf2.24xlarge", "lnc": 1, "devices": devices, "holders": [holder]});
    world.annotate_node("n1", "neuron-scheduler/devices", &report.to_string()).await;
    eventually("the node is open again", async || world.fits(&next, "n1").await.then_some(())).await;
    assert_eq!(world.bind(&next, "n1").await, "");
    assert_ne!(world.placed("next").await.1.as_deref(), Some("0"));
}

#[tokio::test]
async fn pods_that_were_given_the_same_cores_are_both_told() {
    let config = Config { event_delay: Duration::from_millis(300), ..Config::default() };
    let world = World::configured(config, &[("n1", "inf2.24xlarge")]).await;
    let mut holders = Vec::new();
    for (name, cores) in [("one", [0, 1]), ("other", [1, 2]), ("third", [4, 5])] {
        let pod = world.create(bound(pod(name, "neuroncore", 2), "n1", json!({}))).await;
        holders.push(json!({"pod": format!("default/{name}"), "uid": pod.metadata.uid, "cores": cores}));
    }
    let devices: Vec<_> = (0..6).map(|id| json!({"id": id, "links": [], "health": "Healthy"})).collect();
    let report =
        json!({"v": 1, "instanceType": "inf2.24xlarge", "lnc": 1, "devices": devices, "holders": holders});
    world.annotate_node("n1", "neuron-scheduler/devices", &report.to_string()).await;
    eventually("both events are there", async || {
        (world.notes("NeuronDevicesShared").await.len() == 2).then_some(())
    })
    .await;
    let note = |pod: &str, with: &str| {
        format!(
            "Pod default/{pod} and pod default/{with} were both given core(s) 1 of node n1, by its device plugin's report, and may \
             disturb each other: delete one of them."
        )
    };
    assert_eq!(world.notes("NeuronDevicesShared").await, [note("one", "other"), note("other", "one")]);
}

#[tokio::test]
async fn pods_placed_by_aws_extension_hold_too() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let annotations = json!({
        "AWS_NEURON_IDS": "0,1,2,3", "NEURON_ALLOCATED": "true", "NEURON_RESOURCE_TYPE": "aws.amazon.com/neuron",
    });
    world.create(bound(pod("theirs", "neuron", 4), "n1", annotations)).await;
    let three = world.pod("three", "neuron", 3).await;
    eventually("the pod is seen", async || (!world.fits(&three, "n1").await).then_some(())).await;
    let two = world.pod("two", "neuron", 2).await;
    assert_eq!(world.bind(&two, "n1").await, "");
    assert_eq!(world.placed("two").await.1.as_deref(), Some("4,5"));
}

#[tokio::test]
async fn usage_maps_on_nodes_are_not_read() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge"), ("n2", "inf2.xlarge")]).await;
    world.annotate_node("n1", "NEURON_DEV_USAGE_MAP", "1").await;
    world.annotate_node("n1", "NEURON_CORE_USAGE_MAP", "1,1").await;
    // A later change of another node shows that the watch has passed these.
    world.annotate_node("n2", "neuron-scheduler/devices", "{").await;
    let pod = world.pod("one", "neuron", 1).await;
    eventually("the node watch has come so far", async || (!world.fits(&pod, "n2").await).then_some(()))
        .await;
    assert!(world.fits(&pod, "n1").await);
}
