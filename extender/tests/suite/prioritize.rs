//! How nodes are scored: what is large and linked stays for who needs it.

use std::collections::BTreeMap;

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{World, pod};

/// The scores that `/prioritize` gives these nodes, asked by name: 0 to those that it does not name.
async fn scores(world: &World, pod: &Pod, nodes: &[&str]) -> Vec<i64> {
    let args = json!({"Pod": pod, "Nodes": null, "NodeNames": nodes});
    let answer: Vec<Value> = serde_json::from_str(&world.post("/prioritize", args).await).unwrap();
    let score =
        |entry: &Value| (entry["Host"].as_str().unwrap().to_owned(), entry["Score"].as_i64().unwrap());
    let mut scores: BTreeMap<String, i64> = answer.iter().map(score).collect();
    assert!(
        scores.len() == answer.len() && scores.values().all(|score| (1..=10).contains(score)),
        "{answer:?}"
    );
    nodes.iter().map(|node| scores.remove(*node).unwrap_or_default()).collect()
}

#[tokio::test]
async fn a_node_that_is_used_already_comes_before_an_empty_one() {
    let world =
        World::with_nodes(&[("a", "trn1.32xlarge"), ("b", "trn1.32xlarge"), ("c", "trn1.32xlarge")]).await;
    let held = world.pod("held", "neuroncore", 1).await;
    assert_eq!(world.bind(&held, "b").await, "");
    let one = world.pod("one", "neuroncore", 1).await;
    assert_eq!(scores(&world, &one, &["a", "b", "c"]).await, [0, 10, 0], "equal nodes have equal scores");
    assert_eq!(scores(&world, &one, &["a", "c"]).await, [0, 0]);
}

#[tokio::test]
async fn the_smallest_machine_that_serves_comes_first() {
    let world = World::with_nodes(&[
        ("large", "trn2.48xlarge"),
        ("middle", "inf2.48xlarge"),
        ("small", "inf2.xlarge"),
        ("full", "inf2.xlarge"),
    ])
    .await;
    let holder = world.pod("holder", "neuron", 1).await;
    assert_eq!(world.bind(&holder, "full").await, "");
    let one = world.pod("one", "neuron", 1).await;
    let nodes = ["large", "middle", "small", "full", "nowhere"];
    assert_eq!(scores(&world, &one, &nodes).await, [0, 5, 10, 0, 0], "what does not fit has the worst");
    let sixteen = world.pod("sixteen", "neuron", 16).await;
    assert_eq!(scores(&world, &sixteen, &nodes).await, [10, 0, 0, 0, 0]);
}

#[tokio::test]
async fn pods_of_one_device_fill_one_node_before_the_next() {
    let names = ["a", "b", "c", "d"];
    let world = World::with_nodes(&names.map(|name| (name, "trn1.32xlarge"))).await;
    for at in 0..8 {
        let pod = world.pod(&format!("p{at}"), "neuron", 1).await;
        let scores = scores(&world, &pod, &names).await;
        let most = scores.iter().max().unwrap();
        let best: Vec<&str> =
            names.iter().zip(&scores).filter(|(_, score)| *score == most).map(|(name, _)| *name).collect();
        assert_eq!(best.len(), if at == 0 { 4 } else { 1 }, "{scores:?}");
        // kube-scheduler takes any of them.
        assert_eq!(world.bind(&pod, best[at % best.len()]).await, "");
    }
    let all = world.pod("all", "neuron", 16).await;
    eventually("three nodes to be whole", async || {
        let fitting = world.filter(&all, &names).await["NodeNames"].as_array().unwrap().len();
        (fitting == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_answer_is_a_bare_array_for_names_and_for_whole_nodes() {
    let world = World::with_nodes(&[("inf", "inf2.24xlarge"), ("trn", "trn1.32xlarge")]).await;
    let two = pod("two", "neuroncore", 2);
    let wanted = r#"[{"Host":"inf","Score":10}]"#;
    let nodes =
        json!({"metadata": {}, "items": [{"metadata": {"name": "inf"}}, {"metadata": {"name": "trn"}}]});
    let path = "/apis/neuron-scheduler/v1/schedule/prioritize";
    for args in [
        json!({"Pod": two, "Nodes": null, "NodeNames": ["inf", "trn"]}),
        json!({"pod": two, "nodes": null, "nodenames": ["inf", "trn"]}),
        json!({"Pod": two, "Nodes": nodes, "NodeNames": null}),
    ] {
        assert_eq!(world.post("/prioritize", &args).await, wanted, "{args}");
        assert_eq!(world.post(path, &args).await, wanted, "{args}");
    }
    let mut plain = pod("plain", "neuron", 1);
    plain["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    let plain = json!({"Pod": plain, "NodeNames": ["inf"]});
    assert_eq!(world.post("/prioritize", plain).await, "[]");
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_a_bad_request() {
    let world = World::with_nodes(&[]).await;
    let (status, text) = world.call(Method::POST, "/prioritize", "{}".to_owned()).await;
    assert_eq!((status, &*text), (400, "the body of /prioritize has no Pod; send one"));
}
