//! kubelet admits pods in another order than they were bound in, and asks again before any record is corrected.

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use serde_json::json;

use crate::manual_kubelet::{ManualKubelet, node_object};
use crate::node::{Node, asks, container};

/// Seed 750288.
#[tokio::test]
async fn an_init_container_gets_what_its_main_container_can_keep() {
    let node = Node::new("inf2.24xlarge");
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    let never_corrected = from_fn(async |request: Request, next: Next| {
        if request.method() == Method::PATCH && request.uri().path().contains("/pods/") {
            return std::future::pending().await;
        }
        next.run(request).await
    });
    let _plugin = node.plugin_with(kube::Client::new(node.api.router().layer(never_corrected), "default"));
    kubelet.registered(1).await;
    node.place("held", asks("neuron", 1), &[("main", "4", "")]).await;
    let held = ["neuron4".to_owned()];
    kubelet.write(&node, &[("held", &held)]).await;
    let whole = json!({
        "initContainers": [container("init", "neuron", 1)],
        "containers": [container("main", "neuron", 3)],
    });
    node.place("whole", whole, &[("init", "0", ""), ("main", "0,1,2", "")]).await;
    node.place("single", asks("neuron", 1), &[("main", "5", "")]).await;
    // The single one is admitted first, and taken for the init container.
    let single = kubelet.admit(&["neuron0", "neuron1", "neuron2", "neuron3", "neuron5"], 1).await;
    assert_eq!(single, ["neuron0"]);
    kubelet.write(&node, &[("held", &held), ("single", &single)]).await;
    // Device 5, which is left over, has no two free devices beside it.
    let init = kubelet.admit(&["neuron1", "neuron2", "neuron3", "neuron5"], 1).await;
    assert!(["neuron1", "neuron2", "neuron3"].contains(&&*init[0]), "{init:?}");
}
