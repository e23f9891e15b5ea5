//! An API server that refuses while the watch shows nothing: kubelet is asked for its pods, and one that does not tell them leaves the
//! API server to be asked again before a set is guessed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use fake_cluster::Version;
use rstest::rstest;
use testkit_support::within;

use crate::node::{Node, asks};

#[rstest]
#[case::once_more(Version::V1_34, 2)]
#[case::never(Version::V1_37, u32::MAX)]
#[tokio::test]
async fn a_record_is_found_though_the_api_server_refuses(#[case] version: Version, #[case] times: u32) {
    let node = Node::of(version, "trn1.32xlarge");
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
    refusals.store(times, Ordering::SeqCst);
    node.place("p", asks("neuron", 4), &[("main", "8,9,10,11", "")]).await;
    within("the pod", node.phase("p", "Running")).await;
    assert!(
        refusals.load(Ordering::SeqCst) == 0 || version == Version::V1_37,
        "it was not refused often enough"
    );
    let (_, ids) = node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES");
    assert_eq!(ids.as_deref(), Some("8,9,10,11"));
}

#[tokio::test]
async fn the_end_of_a_pod_that_only_kubelet_knows_of_frees_its_devices() {
    let node = Node::new("inf2.xlarge");
    let is_cut = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_cut);
    let cut_off = from_fn(move |request: Request, next: Next| {
        let is_refused = request.uri().path() == "/api/v1/pods" && cut.load(Ordering::SeqCst);
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
        async move {
            if is_watch {
                return std::future::pending().await;
            }
            if is_refused { StatusCode::BAD_GATEWAY.into_response() } else { next.run(request).await }
        }
    });
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin_with(kube::Client::new(node.api.router().layer(cut_off), "default"));
    node.shows("aws.amazon.com/neuron", 1).await;
    node.place("first", asks("neuron", 1), &[("main", "0", "")]).await;
    node.phase("first", "Running").await;
    is_cut.store(true, Ordering::SeqCst);
    node.delete("first").await;
    node.place("second", asks("neuron", 1), &[("main", "0", "")]).await;
    within("the second pod", node.phase("second", "Running")).await;
}

#[tokio::test]
async fn kubelet_is_answered_in_time_though_the_api_server_hangs() {
    let mut node = Node::of(Version::V1_34, "inf2.xlarge");
    node.config.api_timeout = Duration::from_secs(60);
    let hangs = Arc::new(AtomicBool::new(false));
    let is_hanging = Arc::clone(&hangs);
    let hang = from_fn(move |request: Request, next: Next| {
        let hangs = request.uri().path() == "/api/v1/pods"
            && (is_hanging.load(Ordering::SeqCst)
                || request.uri().query().unwrap_or_default().contains("watch=true"));
        async move { if hangs { std::future::pending().await } else { next.run(request).await } }
    });
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin_with(kube::Client::new(node.api.router().layer(hang), "default"));
    node.shows("aws.amazon.com/neuron", 1).await;
    hangs.store(true, Ordering::SeqCst);
    // kubelet asks for a pod that the plugin has never heard of.
    node.place("p", asks("neuron", 1), &[("main", "0", "")]).await;
    within("the pod, for which the API server is not waited for a minute", node.phase("p", "Running")).await;
}
