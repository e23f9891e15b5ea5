//! A pod's author restricts it to device models, by `neuron-scheduler/device-model`.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use neuron_extender::Config;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{World, pod};

/// A pod of one device with this annotation.
fn wants(models: &str) -> Value {
    let mut pod = pod("wants", "neuron", 1);
    pod["metadata"]["annotations"] = json!({"neuron-scheduler/device-model": models});
    pod
}

async fn ask(world: &World, verb: &str, models: &str) -> Value {
    let args = json!({"Pod": wants(models), "NodeNames": ["inf", "one", "two"]});
    serde_json::from_str(&world.post(verb, args).await).unwrap()
}

async fn fleet() -> World {
    World::with_nodes(&[("inf", "inf2.24xlarge"), ("one", "trn1.32xlarge"), ("two", "trn2.48xlarge")]).await
}

#[tokio::test]
async fn only_nodes_of_the_models_are_left() {
    let world = fleet().await;
    let answer = ask(&world, "/filter", "Trainium,inf2.24xlarge").await;
    assert_eq!(answer["NodeNames"], json!(["inf", "one"]));
    let refused = "the pod is restricted to device models Trainium,inf2.24xlarge by its annotation \
                   neuron-scheduler/device-model, the node is a trn2.48xlarge";
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"two": refused}), "nothing ever changes that");
}

#[tokio::test]
async fn the_first_model_comes_first_whatever_its_size() {
    let world = fleet().await;
    let scores = async |models: &str| ask(&world, "/prioritize", models).await;
    let [ten, five] = [10, 5].map(|score| move |node: &str| json!({"Host": node, "Score": score}));
    assert_eq!(scores("Trainium2,Trainium,Inferentia2").await, json!([five("one"), ten("two")]), "inf has 0");
    assert_eq!(scores("Inferentia2,Trainium").await, json!([ten("inf")]));
}

#[tokio::test]
async fn a_word_that_is_no_model_has_no_node_and_says_which_are() {
    let world = fleet().await;
    let answer = ask(&world, "/filter", "Trainium,Tranium2").await;
    assert_eq!(answer["NodeNames"], json!([]));
    let said = answer["FailedAndUnresolvableNodes"]["one"].as_str().unwrap();
    assert!(
        said.contains("names \"Tranium2\", which is no device model; possible are Inferentia,"),
        "{said}"
    );
}

#[tokio::test]
async fn a_pod_without_neuron_is_not_restricted() {
    let world = fleet().await;
    let mut plain = wants("nonsense");
    plain["spec"]["containers"][0]["resources"] = json!({});
    let args = json!({"Pod": plain, "NodeNames": ["inf"]});
    let answer: Value = serde_json::from_str(&world.post("/filter", args).await).unwrap();
    assert_eq!(answer["NodeNames"], json!(["inf"]));
}

#[tokio::test]
async fn an_event_tells_of_a_pod_whose_models_no_node_has_or_gives() {
    let config = Config { event_delay: Duration::from_millis(100), ..Config::default() };
    let world = World::configured(config, &[("inf", "inf2.24xlarge"), ("one", "trn1.32xlarge")]).await;
    let unschedulable = json!({"status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]}});
    for (name, models, count) in
        [("none", "Trainium3", 1), ("never", "Trainium", 3), ("misspelt", "Tranium", 1)]
    {
        let mut waits = pod(name, "neuron", count);
        waits["metadata"]["annotations"] = json!({"neuron-scheduler/device-model": models});
        world.create(waits).await;
        let patch = Patch::Merge(&unschedulable);
        world.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }
    let notes = eventually("three events", async || {
        let notes = world.notes("NeuronRequestUnsupported").await;
        (notes.len() == 3).then_some(notes)
    })
    .await;
    let has = |words: &str| assert!(notes.iter().any(|note| note.contains(words)), "{words}: {notes:?}");
    has("the pod is restricted to device models Trainium3 by its annotation");
    has("Instance type trn1.32xlarge does not support requests for device: 3.");
    has("names \"Tranium\", which is no device model");
}
