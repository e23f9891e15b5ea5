//! The bodies of filter and bind, to the byte (T1 to T5 of the conformance list).

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::{World, pod};

async fn fleet() -> World {
    World::with_nodes(&[("inf", "inf2.24xlarge"), ("trn", "trn1.32xlarge")]).await
}

fn nodes() -> Value {
    json!({"kind": "NodeList", "metadata": {}, "items": [
        {"metadata": {"name": "inf", "annotations": {"kept": "as it came"}}, "spec": {"podCIDR": "10.0.0.0/24"}},
        {"metadata": {"name": "trn"}},
    ]})
}

#[tokio::test]
async fn filter_answers_the_form_that_was_asked() {
    let world = fleet().await;
    let seven = pod("seven", "neuron", 7);
    let names = json!({"Pod": seven, "Nodes": null, "NodeNames": ["inf", "trn"]});
    assert_snapshot!("filter_names", world.post("/filter", names).await);
    let two = pod("two", "neuron", 2);
    let full = json!({"Pod": two, "Nodes": nodes(), "NodeNames": null});
    assert_snapshot!("filter_full_nodes", world.post("/filter", full).await);
    let neither = json!({"Pod": two, "Nodes": null, "NodeNames": null});
    assert_snapshot!("filter_neither", world.post("/filter", neither).await);
    let empty = json!({"Pod": two, "NodeNames": []});
    assert_snapshot!("filter_no_names", world.post("/filter", empty).await);
    let no_items = json!({"Pod": two, "Nodes": {"metadata": {}, "items": null}});
    assert_snapshot!("filter_null_items", world.post("/filter", no_items).await);
}

#[tokio::test]
async fn lower_case_keys_and_the_long_path_are_read_too() {
    let world = fleet().await;
    let path = "/apis/neuron-scheduler/v1/schedule/filter";
    let two = pod("two", "neuron", 2);
    let args = |pod: &str, nodes: &str, names: &str| json!({pod: two, nodes: null, names: ["inf"]});
    let wanted = world.post("/filter", args("Pod", "Nodes", "NodeNames")).await;
    assert!(wanted.contains(r#""NodeNames":["inf"]"#), "{wanted}");
    assert_eq!(world.post(path, args("pod", "nodes", "nodeNames")).await, wanted);
    assert_eq!(world.post(path, args("pod", "nodes", "nodenames")).await, wanted);
    let bind = json!({"podname": "no", "podnamespace": "default", "poduid": "u", "node": "inf"});
    let answer = r#"{"Error":"the pod does not exist any more; nothing was bound"}"#;
    assert_eq!(world.post("/apis/neuron-scheduler/v1/schedule/bind", bind).await, answer);
}

#[tokio::test]
async fn kube_scheduler_may_have_seen_a_node_first() {
    let world = fleet().await;
    let args = json!({"Pod": pod("one", "neuroncore", 1), "NodeNames": ["nowhere"]});
    assert_snapshot!("filter_unknown_node", world.post("/filter", args).await);
}

#[tokio::test]
async fn a_pod_without_neuron_passes_everywhere() {
    let world = fleet().await;
    let mut plain = pod("plain", "neuron", 1);
    plain["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "1"}});
    let args = json!({"Pod": plain, "NodeNames": ["nowhere", "inf"]});
    assert_snapshot!("filter_plain_pod", world.post("/filter", args).await);
}

#[tokio::test]
async fn bad_bodies_say_what_is_wrong() {
    let world = fleet().await;
    let error = async |path: &str, body: &str| {
        let answer: Value = serde_json::from_str(&world.post(path, body).await).unwrap();
        answer["Error"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        error("/filter", "{").await,
        "the body of /filter is not what kube-scheduler sends: EOF while parsing an object at line 1 column 1"
    );
    assert_eq!(error("/filter", "{}").await, "the body of /filter has no Pod; send one");
    assert_eq!(
        error("/filter", r#"{"Pod":{"spec":{}},"Nodes":{"items":[{"metadata":{}}]}}"#).await,
        "the body of /filter is not what kube-scheduler sends: a node without a readable name: it has no \
         metadata.name at line 1 column 53"
    );
    assert_eq!(
        error("/bind", r#"{"PodName":"a","PodNamespace":"b","PodUID":"c"}"#).await,
        "the body of /bind is not what kube-scheduler sends: missing field `Node` at line 1 column 47"
    );
}

#[tokio::test]
async fn a_request_that_cannot_be_read_drops_every_node() {
    let world = fleet().await;
    let mut half = pod("half", "neuron", 1);
    half["spec"]["containers"][0]["resources"]["limits"] = json!({"aws.amazon.com/neuron": "500m"});
    let args = json!({"Pod": half, "NodeNames": ["inf", "trn"]});
    assert_snapshot!("filter_unreadable_request", world.post("/filter", args).await);
}

#[tokio::test]
async fn bodies_beyond_axums_own_limit_are_taken() {
    let world = fleet().await;
    let filler = "x".repeat(5 << 20);
    let node = json!({"metadata": {"name": "inf", "annotations": {"filler": filler}}});
    let args = json!({"Pod": pod("one", "neuroncore", 1), "Nodes": {"items": [node]}});
    let answer: Value = serde_json::from_str(&world.post("/filter", args).await).unwrap();
    assert_eq!(answer["Nodes"]["items"], json!([node]));
}
