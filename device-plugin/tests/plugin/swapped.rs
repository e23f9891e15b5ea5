//! kubelet admits pods in another order than they were bound in, and asks again before any record is corrected.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use kube::api::DeleteParams;
use serde_json::json;

use crate::manual_kubelet::{ManualKubelet, node_object, request};
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

#[tokio::test]
async fn of_two_swapped_pods_of_which_one_ends_before_correction_the_other_keeps_what_it_has() {
    let node = Node::new("inf2.24xlarge");
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    let is_refused = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&is_refused);
    let not_corrected = from_fn(move |request: Request, next: Next| {
        let is_correction = request.method() == Method::PATCH && request.uri().path().contains("/pods/");
        let is_refused = is_correction && refuses.load(Ordering::SeqCst);
        async move { if is_refused { StatusCode::BAD_GATEWAY.into_response() } else { next.run(request).await } }
    });
    let _plugin = node.plugin_with(kube::Client::new(node.api.router().layer(not_corrected), "default"));
    kubelet.registered(1).await;
    node.place("first", asks("neuron", 2), &[("main", "0,1", "")]).await;
    node.place("second", asks("neuron", 2), &[("main", "2,3", "")]).await;
    // kubelet admits the second one first.
    let second = kubelet.admit(&["neuron0", "neuron1", "neuron2", "neuron3", "neuron4", "neuron5"], 2).await;
    kubelet.write(&node, &[("second", &second)]).await;
    let first = kubelet.admit(&["neuron2", "neuron3", "neuron4", "neuron5"], 2).await;
    assert_eq!((second.join(","), first.join(",")), ("neuron0,neuron1".into(), "neuron2,neuron3".into()));
    kubelet.write(&node, &[("second", &second), ("first", &first)]).await;

    node.pods().delete("second", &DeleteParams::default().grace_period(0)).await.unwrap();
    kubelet.write(&node, &[("first", &first)]).await;
    // What the ended one had is free, though the other's record still names it; what that one's own named is not.
    node.place("third", asks("neuron", 2), &[("main", "0,1", "")]).await;
    let mut plugin = kubelet.devices().await;
    let refused = plugin.allocate(request(&first)).await.unwrap_err();
    assert!(refused.message().contains("pod default/first holds neuron2,neuron3"), "{}", refused.message());
    let third = kubelet.admit(&["neuron0", "neuron1", "neuron4", "neuron5"], 2).await;
    assert_eq!(third, ["neuron0", "neuron1"]);
    kubelet.write(&node, &[("first", &first), ("third", &third)]).await;

    is_refused.store(false, Ordering::SeqCst);
    node.recorded("first", &[("main", "2,3", "")]).await;
    let report =
        node.report("both", |report| report["holders"].as_array().is_some_and(|all| all.len() == 2)).await;
    let cores = |pod: usize| report["holders"][pod]["cores"].clone();
    assert_eq!((cores(0), cores(1)), (json!([4, 5, 6, 7]), json!([0, 1, 2, 3])), "{report}");
}
