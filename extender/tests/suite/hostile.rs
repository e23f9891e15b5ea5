//! A pod whose author makes the search long holds up nobody else, and is told what to change.

use std::time::Duration;

use http::Method;
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{World, pod};

/// Moves of one question (core/src/placement/budget.rs).
const MOVES: u64 = 200_000;
/// How long kube-scheduler waits for an extender unless it is told otherwise (docs/reference/kubernetes.md §1).
const LIMIT: Duration = Duration::from_secs(5);

/// Containers that ask for so many cores each.
fn containers(kind: &str, cores: &[u32]) -> Vec<Value> {
    let container = |(at, cores): (usize, &u32)| {
        let limits = json!({"aws.amazon.com/neuroncore": cores.to_string()});
        json!({"name": format!("{kind}{at}"), "image": "workload", "resources": {"limits": limits}})
    };
    cores.iter().enumerate().map(container).collect()
}

/// A pod of such init containers and apps.
fn asks(inits: &[u32], apps: &[u32]) -> Value {
    let mut pod = pod("hostile", "neuroncore", 1);
    pod["metadata"]["uid"] = json!("hostile");
    pod["spec"] = json!({"initContainers": containers("init", inits), "containers": containers("app", apps)});
    pod
}

/// One core handed down to an app, sixteen apps of three, and two cores for which nothing is left that is linked.
fn hostile() -> Value {
    asks(&[1], &[&[1][..], &[3; 16], &[2]].concat())
}

/// The counter's value.
async fn counted(world: &World, counter: &str) -> u64 {
    let (_, text) = world.get("/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(counter)).unwrap_or_default();
    line.trim().parse().unwrap_or_default()
}

#[tokio::test]
async fn a_hostile_pod_is_answered_in_time_and_within_the_moves_of_a_question() {
    let nodes = ["a", "b", "c"];
    let world = World::with_nodes(&nodes.map(|name| (name, "trn2.48xlarge"))).await;
    let args = json!({"Pod": hostile(), "Nodes": null, "NodeNames": nodes}).to_string();
    let began = Instant::now();
    let answer: Value = serde_json::from_str(&world.post("/filter", &args).await).unwrap();
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    let why = "not decided: there are too many ways to place the pod's 19 Neuron containers; ask in fewer containers or for whole devices";
    assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!([]), &json!("")), "{answer}");
    assert_eq!(
        answer["FailedNodes"],
        json!({"a": why, "b": why, "c": why}),
        "others may have less to search"
    );
    let troubles = include_str!("../../../docs/deploy.md");
    assert!(troubles.contains(&format!("| `{why}` |")), "who reads it looks for it there");
    let moves = counted(&world, "neuron_extender_search_moves_total{verb=\"filter\"}").await;
    // Right after the first lists filter waits for what the watches tell, and asks once more.
    assert!((1..=2 * MOVES).contains(&moves), "{moves} moves for three nodes that are one kind");
    let given_up = counted(&world, "neuron_extender_searches_given_up_total{verb=\"filter\"}").await;
    assert!((1..=2).contains(&given_up), "{given_up}");
    // Beside it, in its verbs.
    let (status, scores) = world.call(Method::POST, "/prioritize", args).await;
    assert_eq!((status, &*scores), (200, "[]"), "it suits none better than another");
}

#[tokio::test]
async fn other_pods_are_placed_beside_one_that_is_asked_about_again_and_again() {
    let world = World::with_nodes(&[("a", "trn2.48xlarge"), ("b", "trn2.48xlarge")]).await;
    let args = json!({"Pod": hostile(), "Nodes": null, "NodeNames": ["a", "b"]}).to_string();
    let hostile = async {
        for _ in 0..20 {
            world.post("/filter", &args).await;
        }
    };
    let others = async {
        for number in 0..10 {
            let began = Instant::now();
            let one = world.pod(&format!("one-{number}"), "neuroncore", 2).await;
            assert!(world.fits(&one, "a").await);
            assert_eq!(world.bind(&one, "a").await, "", "of {}", one.name_any());
            assert_eq!(world.get("/healthz").await.0, 200);
            assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
        }
    };
    tokio::join!(hostile, others);
}

#[tokio::test]
async fn a_pod_of_more_containers_than_are_placed_is_refused_for_good() {
    let world = World::with_nodes(&[("a", "trn2.48xlarge")]).await;
    let ask = async |pod: Value| -> Value {
        let args = json!({"Pod": pod, "Nodes": null, "NodeNames": ["a"]});
        serde_json::from_str(&world.post("/filter", args).await).unwrap()
    };
    let why =
        "129 containers of the pod ask for Neuron hardware, at most 128 are placed; ask in fewer of them";
    let refused = ask(asks(&[1; 128], &[1])).await;
    assert_eq!(refused["FailedAndUnresolvableNodes"], json!({"a": why}));
    // As many as may be are: one core, handed down from one to the next.
    assert_eq!(ask(asks(&[1; 127], &[1])).await["NodeNames"], json!(["a"]));
}
