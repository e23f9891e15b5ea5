//! Bind when all goes well, and when others were faster.

use kube::ResourceExt;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{World, bound, pod};

#[tokio::test]
async fn record_and_binding_are_one_write() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let first = world.pod("first", "neuroncore", 2).await;
    let second = world.pod("second", "neuroncore", 2).await;
    assert_eq!(world.bind(&first, "n1").await, "");
    assert_eq!(world.bind(&second, "n1").await, "");
    let pod = world.read("second").await;
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
    // Created and bound: no other write in between.
    let versions = [second.resource_version().unwrap(), pod.resource_version().unwrap()];
    let versions = versions.map(|version| version.parse::<u64>().unwrap());
    assert_eq!(versions[1] - versions[0], 2, "the other pod's Binding and this one");
    let mut annotations = pod.annotations().clone();
    let time = annotations.remove("NEURON_ALLOC_TIME").unwrap();
    assert!(
        time.parse::<i128>().unwrap() > 1_700_000_000_000_000_000,
        "{time} is not in nanoseconds since 1970"
    );
    insta::assert_json_snapshot!("annotations_of_a_core_pod", annotations);
}

#[tokio::test]
async fn a_repeated_bind_is_a_success_and_changes_nothing() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge"), ("n2", "inf2.24xlarge")]).await;
    let pod = world.pod("one", "neuron", 1).await;
    assert_eq!(world.bind(&pod, "n1").await, "");
    let before = world.read("one").await;
    // At once, perhaps before the watch has shown the pod bound, and again when it surely has.
    assert_eq!(world.bind(&pod, "n1").await, "");
    let filler = world.pod("filler", "neuron", 5).await;
    assert_eq!(world.bind(&filler, "n1").await, "");
    assert_eq!(world.bind(&pod, "n1").await, "");
    assert_eq!(world.read("one").await, before);
    assert_eq!(world.bind(&pod, "n2").await, "the pod is already bound to node n1");
    // What the refused bind reserved on n2 is free again.
    let whole = world.pod("whole", "neuron", 6).await;
    assert_eq!(world.bind(&whole, "n2").await, "");
}

#[tokio::test]
async fn a_node_that_was_filled_meanwhile_refuses() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let (early, late) = (world.pod("early", "neuron", 1).await, world.pod("late", "neuroncore", 1).await);
    assert!(world.fits(&early, "n1").await && world.fits(&late, "n1").await);
    assert_eq!(world.bind(&early, "n1").await, "");
    assert_eq!(world.bind(&late, "n1").await, "not enough free: Neuron cores asked 1, free 0 of 2");
    assert_eq!(world.placed("late").await, (None, None));
    world.delete("early").await;
    eventually("the device is free again", async || world.fits(&late, "n1").await.then_some(())).await;
    assert_eq!(world.bind(&late, "n1").await, "");
}

#[tokio::test]
async fn pods_that_cannot_be_bound_are_named() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let pod = world.pod("one", "neuron", 1).await;
    assert_eq!(
        world.bind(&pod, "nowhere").await,
        "the Neuron scheduler knows no node nowhere; kube-scheduler tries again"
    );
    world.delete("one").await;
    assert_eq!(world.bind(&pod, "n1").await, "the pod does not exist any more; nothing was bound");
    let again = world.pod("one", "neuron", 1).await;
    let error = world.bind(&pod, "n1").await;
    let (old, new) = (pod.uid().unwrap(), again.uid().unwrap());
    assert_eq!(error, format!("the pod was recreated: its UID is {new}, not {old}; nothing was bound"));
    assert_eq!(world.bind(&again, "n1").await, "");
}

#[tokio::test]
async fn a_pod_without_neuron_is_bound_without_a_record() {
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let mut plain = pod("plain", "neuron", 1);
    plain["spec"]["containers"][0]["resources"] = Value::Null;
    let plain = world.create(plain).await;
    let refused = world.bind(&plain, "n1").await;
    assert!(refused.starts_with("filter has not admitted the pod on node n1"), "{refused}");
    assert!(world.fits(&plain, "n1").await);
    assert_eq!(world.bind(&plain, "n1").await, "");
    let pod = world.read("plain").await;
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("n1"));
    assert!(pod.annotations().is_empty());
}

#[tokio::test]
async fn a_pod_bound_by_hand_is_not_bound_again() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let pod = world.create(bound(pod("by-hand", "neuron", 1), "n1", json!({}))).await;
    let refused =
        "the pod is already bound to this node, without an allocation record that counts; recreate the pod";
    assert_eq!(world.bind(&pod, "n1").await, refused);
}

#[tokio::test]
async fn a_restart_between_filter_and_bind_does_no_harm() {
    let mut world = World::that_restarts(&[("n1", "inf2.24xlarge")]).await;
    let held = world.pod("held", "neuron", 2).await;
    let pod = world.pod("two", "neuron", 2).await;
    assert_eq!(world.bind(&held, "n1").await, "");
    assert!(world.fits(&pod, "n1").await);
    world.stop().await;
    world.start().await;
    assert_eq!(world.bind_after_start(&pod, "n1").await, "");
    assert_eq!(world.placed("two").await, (Some("n1".into()), Some("2,3".into())));
}
