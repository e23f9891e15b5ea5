//! What pending pods are told though no node of theirs ever reached filter.

use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{World, until};

/// What kube-scheduler writes when no node passed its own filters.
async fn unschedulable(world: &World, pod: &str, message: &str) {
    let condition =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    world.pods().patch_status(pod, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn a_count_that_no_type_supports_gets_the_documented_warning_once() {
    let world =
        World::with_nodes(&[("n1", "trn1.32xlarge"), ("n2", "trn1.32xlarge"), ("web", "m5.large")]).await;
    world.pod("seven", "neuron", 7).await;
    unschedulable(&world, "seven", "0/3 nodes are available: 3 Insufficient aws.amazon.com/neuron.").await;
    until("the warning is there", async || !world.notes("NeuronRequestUnsupported").await.is_empty()).await;
    unschedulable(&world, "seven", "0/3 nodes are available.").await;
    // A later event of another pod shows that the second look at the first one is done.
    world.pod("three", "neuron", 3).await;
    unschedulable(&world, "three", "0/3 nodes are available.").await;
    until("the second warning is there", async || world.notes("NeuronRequestUnsupported").await.len() > 1)
        .await;
    let warning = |count| {
        format!(
            "Instance type trn1.32xlarge does not support requests for device: {count}. Please request a different \
             number of devices."
        )
    };
    assert_eq!(world.notes("NeuronRequestUnsupported").await, [warning(3), warning(7)]);
}

#[tokio::test]
async fn a_pod_that_another_type_could_serve_gets_no_warning() {
    let world = World::with_nodes(&[("n1", "trn1.32xlarge"), ("n2", "inf2.48xlarge")]).await;
    world.pod("seven", "neuron", 7).await;
    unschedulable(&world, "seven", "0/2 nodes are available: 2 node(s) were unschedulable.").await;
    world.pod("too-many", "neuron", 17).await;
    unschedulable(&world, "too-many", "0/2 nodes are available: 2 Insufficient aws.amazon.com/neuron.").await;
    until("the one warning is there", async || !world.notes("NeuronRequestUnsupported").await.is_empty())
        .await;
    let notes = world.notes("NeuronRequestUnsupported").await;
    assert_eq!(notes.len(), 1);
    insta::assert_snapshot!("warning_of_two_types", notes[0]);
}

#[tokio::test]
async fn devices_that_are_free_but_not_linked_are_explained() {
    let world = World::with_nodes(&[("n1", "inf1.6xlarge")]).await;
    for name in ["zero", "one", "two", "three"] {
        let pod = world.pod(name, "neuron", 1).await;
        assert_eq!(world.bind(&pod, "n1").await, "");
    }
    for name in ["zero", "two", "three"] {
        if world.placed(name).await.1.as_deref().is_some_and(|ids| ids == "1" || ids == "3") {
            continue;
        }
        world.delete(name).await;
    }
    let pair = world.pod("pair", "neuron", 2).await;
    until("two devices are free", async || world.filter(&pair, &["n1"]).await.to_string().contains("2 free"))
        .await;
    unschedulable(&world, "pair", "0/1 nodes are available.").await;
    until("the event is there", async || !world.notes("NeuronNoLinkedSet").await.is_empty()).await;
    assert_eq!(
        world.notes("NeuronNoLinkedSet").await,
        ["n1: no linked set of 2 free Neuron devices: 2 free, the largest linked set has 1"]
    );
}
