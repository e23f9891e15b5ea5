//! A kubelet and an API server that shows it an older state, or refuses what it writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use fake_cluster::{Kubelet, System};
use http::{Method, StatusCode, header};
use kube::api::{Patch, PatchParams};
use rstest::rstest;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::test_node::{TestNode, container, ending};

/// A kubelet whose way to the API server is this one.
async fn kubelet(node: &TestNode, client: kube::Client) -> Kubelet {
    Kubelet::start(&System::real(), client, &node.api, node.config.clone(), node.runtime.clone())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_kubelet_that_begins_with_an_old_list_ends_what_is_gone_once_it_hears_of_it() {
    let node = TestNode::new();
    node.bind("p", json!({ "containers": [container("main", 0)] })).await;
    node.delete_within("p", 0).await;
    // The deletion, and what kubelet writes of its node before it lists.
    let client = kube::Client::new(node.api.lagging_router(3), "default");
    let _kubelet = kubelet(&node, client).await;
    eventually("the container to start", async || node.starts("main").first().cloned()).await;
    node.first_end().await;
    // What comes later is seen as ever.
    node.bind("q", json!({ "containers": [container("main", 0)] })).await;
    node.phase("q", "Running").await;
}

#[tokio::test]
async fn a_refusal_that_does_not_mean_its_pod_keeps_no_kubelet_from_writing_a_status() {
    let node = TestNode::new();
    let is_refused = Arc::new(AtomicBool::new(false));
    let refuse = {
        let is_refused = Arc::clone(&is_refused);
        from_fn(move |request: Request, next: Next| {
            let is_status =
                request.method() == Method::PATCH && request.uri().path().ends_with("/pods/p/status");
            let refuse = is_status && !is_refused.swap(is_status, Ordering::Relaxed);
            async move { if refuse { conflict() } else { next.run(request).await } }
        })
    };
    let _kubelet = kubelet(&node, kube::Client::new(node.api.router().layer(refuse), "default")).await;
    node.bind("p", json!({ "containers": [container("main", 0)] })).await;
    node.phase("p", "Running").await;
    assert!(is_refused.load(Ordering::Relaxed));
}

/// A write that kubelet has given up is carried out after its next one.
#[rstest]
#[case::runs(json!({ "containers": [container("main", 0)] }), "Running", "Pending")]
#[case::has_ended(json!({ "restartPolicy": "Never", "containers": [ending(container("main", 0), 0, 0)] }), "Succeeded", "Running")]
#[tokio::test]
async fn a_status_that_an_older_one_has_overwritten_is_written_again(
    #[case] spec: Value,
    #[case] phase: &str,
    #[case] late: &str,
) {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    node.bind("p", spec).await;
    node.phase("p", phase).await;
    let patch = Patch::Merge(json!({ "status": { "phase": late } }));
    let overwritten = node.pods().patch_status("p", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(overwritten.status.unwrap().phase.as_deref(), Some(late));
    node.phase("p", phase).await;
}

fn conflict() -> axum::response::Response {
    let status = json!({ "kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409, "message": "again" });
    (StatusCode::CONFLICT, [(header::CONTENT_TYPE, "application/json")], status.to_string()).into_response()
}
