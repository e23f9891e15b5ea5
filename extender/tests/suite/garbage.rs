//! A device model that is none is answered with those that are.

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{World, pod};

/// The device models of docs/architecture.md §3.
const MODELS: [&str; 5] = ["Inferentia", "Inferentia2", "Trainium", "Trainium2", "Trainium3"];

/// What filter says of a pod that wants these models.
async fn ask(world: &World, models: &str) -> Value {
    let mut wants = pod("wants", "neuron", 1);
    wants["metadata"]["annotations"] = json!({"neuron-scheduler/device-model": models});
    let args = json!({"Pod": wants, "NodeNames": ["inf", "trn"]});
    serde_json::from_str(&world.post("/filter", args).await).unwrap()
}

async fn fleet() -> World {
    World::with_nodes(&[("inf", "inf2.24xlarge"), ("trn", "trn1.32xlarge")]).await
}

#[rstest]
#[case::misspelt("Tranium", "Tranium")]
#[case::beside_a_good_one("Trainium,Inferentia3", "Inferentia3")]
#[case::of_others("p5.48xlarge", "p5.48xlarge")]
#[case::other_separator("Trainium;Inferentia", "Trainium;Inferentia")]
#[case::nothing("", "")]
#[tokio::test]
async fn a_word_that_is_no_device_model_is_answered_with_all_that_are(
    #[case] models: &str,
    #[case] word: &str,
) {
    let world = fleet().await;
    let answer = ask(&world, models).await;
    assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!([]), &json!("")));
    let why = format!(
        "annotation neuron-scheduler/device-model names \"{word}\", which is no device model; possible are {}, {}, {}, {}, {} and instance \
         types such as trn1.32xlarge, one or more with commas between them",
        MODELS[0], MODELS[1], MODELS[2], MODELS[3], MODELS[4]
    );
    // Only the author can mend it, so that nobody is ended for the pod.
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"inf": why, "trn": why}));
}

#[tokio::test]
async fn what_is_said_to_be_possible_is() {
    let world = fleet().await;
    for model in MODELS.into_iter().chain(["trn1.32xlarge"]) {
        let answer = ask(&world, model).await.to_string();
        assert!(!answer.contains("no device model"), "{model}: {answer}");
    }
    assert_eq!(ask(&world, "Trainium").await["NodeNames"], json!(["trn"]));
    assert_eq!(ask(&world, "trn1.32xlarge").await["NodeNames"], json!(["trn"]));
    assert_eq!(ask(&world, &MODELS.join(",")).await["NodeNames"], json!(["inf", "trn"]));
}
