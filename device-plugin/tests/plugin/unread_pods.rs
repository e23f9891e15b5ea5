//! An API server that refuses for a moment, while the watch shows nothing: the pods are asked for again before a set is guessed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use testkit_support::within;

use crate::node::{Node, asks};

#[tokio::test]
async fn a_record_is_found_though_the_pods_cannot_be_read_twice() {
    let node = Node::new("trn1.32xlarge");
    let refusals = Arc::new(AtomicU32::new(0));
    let left = Arc::clone(&refusals);
    let flaky = from_fn(move |request: Request, next: Next| {
        let left = Arc::clone(&left);
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            if path == "/api/v1/pods" && query.contains("watch=true") {
                // Nothing is ever heard of it.
                return std::future::pending().await;
            }
            let one_less = |left: u32| left.checked_sub(1);
            if path == "/api/v1/pods"
                && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
            {
                return StatusCode::BAD_GATEWAY.into_response();
            }
            next.run(request).await
        }
    });
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin_with(kube::Client::new(node.api.router().layer(flaky), "default"));
    node.shows("aws.amazon.com/neuron", 16).await;
    refusals.store(2, Ordering::SeqCst);
    node.place("p", asks("neuron", 4), &[("main", "8,9,10,11", "")]).await;
    within("the pod", node.phase("p", "Running")).await;
    assert_eq!(refusals.load(Ordering::SeqCst), 0);
    let (_, ids) = node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES");
    assert_eq!(ids.as_deref(), Some("8,9,10,11"));
}
