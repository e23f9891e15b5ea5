//! What pending pods are told though no node of theirs ever reached filter.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use neuron_extender::Config;
use serde_json::json;
use testkit_support::eventually;

use crate::support::{World, pod};

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
    eventually("the warning is there", async || {
        (!world.notes("NeuronRequestUnsupported").await.is_empty()).then_some(())
    })
    .await;
    unschedulable(&world, "seven", "0/3 nodes are available.").await;
    // A later event of another pod shows that the second look at the first one is done.
    world.pod("three", "neuron", 3).await;
    unschedulable(&world, "three", "0/3 nodes are available.").await;
    eventually("the second warning is there", async || {
        (world.notes("NeuronRequestUnsupported").await.len() > 1).then_some(())
    })
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
async fn a_warning_that_could_not_be_sent_is_sent_later() {
    let config = Config { event_delay: Duration::from_millis(300), ..Config::default() };
    let world = World::configured(config, &[("n1", "trn1.32xlarge")]).await;
    world.faults.lose_events(2);
    world.pod("seven", "neuron", 7).await;
    unschedulable(&world, "seven", "0/1 nodes are available.").await;
    eventually("the warning is there", async || {
        (!world.notes("NeuronRequestUnsupported").await.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_another_type_could_serve_gets_no_warning() {
    let world = World::with_nodes(&[("n1", "trn1.32xlarge"), ("n2", "inf2.48xlarge")]).await;
    world.pod("seven", "neuron", 7).await;
    unschedulable(&world, "seven", "0/2 nodes are available: 2 node(s) were unschedulable.").await;
    world.pod("too-many", "neuron", 17).await;
    unschedulable(&world, "too-many", "0/2 nodes are available: 2 Insufficient aws.amazon.com/neuron.").await;
    eventually("the one warning is there", async || {
        (!world.notes("NeuronRequestUnsupported").await.is_empty()).then_some(())
    })
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
    eventually("two devices are free", async || {
        world.filter(&pair, &["n1"]).await.to_string().contains("2 free").then_some(())
    })
    .await;
    unschedulable(&world, "pair", "0/1 nodes are available.").await;
    eventually("the event is there", async || {
        (!world.notes("NeuronNoLinkedSet").await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(
        world.notes("NeuronNoLinkedSet").await,
        [
            "n1: no linked set of 2 free Neuron devices: 2 free, the largest linked set has 1; it would fit on n1 if pod default/one \
             ended"
        ]
    );
}

#[tokio::test]
async fn free_devices_that_are_not_linked_are_explained_once_for_each_pod() {
    let world = World::with_nodes(&[("n1", "inf1.24xlarge")]).await;
    for index in 0..16 {
        let pod = world.pod(&format!("p{index}"), "neuron", 1).await;
        assert_eq!(world.bind(&pod, "n1").await, "");
    }
    let free = async |device: &str| {
        for pod in world.pods().list(&Default::default()).await.unwrap() {
            let name = pod.metadata.name.unwrap();
            if world.placed(&name).await.1.as_deref() == Some(device) {
                world.delete(&name).await;
            }
        }
    };
    let (pair, other) = (world.pod("pair", "neuron", 2).await, world.pod("other", "neuron", 2).await);
    let unlinked = async |count: &str| {
        eventually("the devices are free", async || {
            world.filter(&pair, &["n1"]).await.to_string().contains(&format!("{count} free, ")).then_some(())
        })
        .await;
    };
    // The first by name of those beside a free device.
    let first_on = async |devices: &[&str]| {
        let mut names = Vec::new();
        for pod in world.pods().list(&Default::default()).await.unwrap() {
            let name = pod.metadata.name.unwrap();
            if world.placed(&name).await.1.is_some_and(|device| devices.contains(&device.as_str())) {
                names.push(name);
            }
        }
        names.into_iter().min().unwrap()
    };
    let (of_two, of_three) = (first_on(&["1", "3", "5"]).await, first_on(&["1", "3", "5", "7", "9"]).await);
    free("0").await;
    free("4").await;
    unlinked("2").await;
    unschedulable(&world, "pair", "0/1 nodes are available.").await;
    eventually("the event is there", async || {
        (world.notes("NeuronNoLinkedSet").await.len() == 1).then_some(())
    })
    .await;
    free("8").await;
    unlinked("3").await;
    unschedulable(&world, "pair", "0/1 nodes are available: still.").await;
    // The event of another pod, asked for later, shows that the second look at the first one is done.
    unschedulable(&world, "other", "0/1 nodes are available.").await;
    assert!(!world.fits(&other, "n1").await);
    eventually("the other pod's event is there", async || {
        (world.notes("NeuronNoLinkedSet").await.len() > 1).then_some(())
    })
    .await;
    let note = |free, pod| {
        format!(
            "n1: no linked set of 2 free Neuron devices: {free} free, the largest linked set has 1; it would fit on n1 if pod \
             default/{pod} ended"
        )
    };
    assert_eq!(world.notes("NeuronNoLinkedSet").await, [note(2, of_two), note(3, of_three)]);
}

#[tokio::test]
async fn a_waiting_pod_is_judged_again_when_the_cluster_gets_another_type() {
    let world = World::with_nodes(&[("web", "m5.large")]).await;
    world.pod("seven", "neuron", 7).await;
    unschedulable(&world, "seven", "0/1 nodes are available: 1 Insufficient aws.amazon.com/neuron.").await;
    // The warning of another pod, asked for later, shows that the first look at this one is done.
    let mut both = pod("broken", "neuron", 1);
    both["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neurondevice"] = json!("1");
    world.create(both).await;
    unschedulable(&world, "broken", "0/1 nodes are available.").await;
    eventually("the pods were judged", async || {
        (!world.notes("NeuronRequestUnsupported").await.is_empty()).then_some(())
    })
    .await;
    let labels = json!({"node.kubernetes.io/instance-type": "trn1.32xlarge"});
    world.node(json!({"metadata": {"name": "n1", "labels": labels}})).await;
    eventually("the warning is there", async || {
        world
            .notes("NeuronRequestUnsupported")
            .await
            .iter()
            .any(|note| {
                note.starts_with("Instance type trn1.32xlarge does not support requests for device: 7.")
            })
            .then_some(())
    })
    .await;
}
