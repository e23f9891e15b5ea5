//! `device_plugin_failures_test.go` and registration: what the Node shows when a plugin fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use fake_cluster::kubelet::STOP_GRACE;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kubelet_api::deviceplugin::v1beta1::{HEALTHY, UNHEALTHY};
use kubelet_api::podresources::v1::AllocatableResourcesRequest;
use rstest::rstest;
use testkit_support::eventually;
use tonic::Status;

use crate::test_node::{NODE, TestNode, WIDGET, widgets};
use crate::test_plugin::{TestPlugin, device, healthy};

#[tokio::test]
async fn when_get_device_plugin_options_fails_the_plugin_is_not_used() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::serving(&node, "widget.sock", healthy(2));
    plugin.fail("options", Status::internal("no options"));
    let error = plugin.register().await.unwrap_err();
    assert_eq!(
        error.message(),
        "failed to get device plugin options: rpc error: code = Internal desc = no options"
    );
    // Kubelet does not know the resource at all, and a pod that asks for it gets nothing.
    node.bind("p", widgets(1)).await;
    node.phase("p", "Running").await;
    assert_eq!(plugin.calls(), []);
}

#[tokio::test]
async fn unhealthy_lowers_allocatable_but_not_capacity_and_back() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.script.devices.send_replace(vec![device("w0", UNHEALTHY), device("w1", HEALTHY)]);
    node.shows("1", "2").await;
    plugin.script.devices.send_replace(healthy(2));
    node.shows("2", "2").await;
}

#[tokio::test]
async fn list_and_watch_failing_at_once_gives_no_devices() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::serving(&node, "widget.sock", healthy(2));
    plugin.fail("list", Status::unavailable("not yet"));
    plugin.register().await.unwrap();
    node.shows("0", "0").await;
}

#[tokio::test]
async fn plugin_stopped_gives_allocatable_zero_at_once_and_capacity_zero_after_the_grace() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.kill();
    node.shows("0", "2").await;
    node.clock.advance(STOP_GRACE - Duration::from_secs(1));
    node.shows("0", "2").await;
    node.clock.advance(Duration::from_secs(1));
    node.shows("0", "0").await;

    node.bind("p", widgets(1)).await;
    let (reason, message) = node.rejection("p").await;
    assert_eq!(reason, format!("OutOf{WIDGET}"));
    assert_eq!(
        message,
        "Pod was rejected: Node didn't have enough resource: example.com/widget, requested: 1, used: 0, capacity: 0"
    );
}

#[tokio::test]
async fn devices_of_a_plugin_long_gone_come_back_if_their_end_was_not_written() {
    let node = TestNode::new();
    let (refuse, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (refuses, counts) = (Arc::clone(&refuse), Arc::clone(&refused));
    let refusing = from_fn(move |request: Request, next: Next| {
        let is_refused = request.uri().path().ends_with("/status") && refuses.load(Ordering::SeqCst);
        counts.fetch_add(is_refused.into(), Ordering::SeqCst);
        async move {
            if is_refused { StatusCode::SERVICE_UNAVAILABLE.into_response() } else { next.run(request).await }
        }
    });
    let client = kube::Client::new(node.api.router().layer(refusing), "default");
    let _kubelet = node.try_kubelet_with(client).await.unwrap();
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.kill();
    node.shows("0", "2").await;
    refuse.store(true, Ordering::SeqCst);
    node.clock.advance(STOP_GRACE);
    eventually("a status that is refused", async || (refused.load(Ordering::SeqCst) > 0).then_some(())).await;
    refuse.store(false, Ordering::SeqCst);
    node.shows("2", "2").await;
    let back = TestPlugin::serving(&node, "again.sock", healthy(1));
    back.register().await.unwrap();
    node.shows("1", "1").await;
}

#[tokio::test]
async fn the_node_shows_a_change_only_after_the_status_period() {
    let mut node = TestNode::new();
    node.config.status_period = Duration::from_secs(10);
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::serving(&node, "widget.sock", healthy(2));
    plugin.register().await.unwrap();
    let mut lister = node.lister().await;
    eventually("kubelet to read the list", async || {
        let answer = lister.get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
        (answer.into_inner().devices.len() == 2).then_some(())
    })
    .await;
    let nodes: Api<Node> = Api::all(node.api.client());
    let status = nodes.get(NODE).await.unwrap().status.unwrap();
    assert!(!status.allocatable.unwrap().contains_key(WIDGET));
    eventually("the next status", async || {
        node.clock.advance(Duration::from_secs(10));
        nodes.get(NODE).await.unwrap().status?.allocatable?.remove(WIDGET)
    })
    .await;
}

#[rstest]
#[case::version(
    "v1alpha",
    WIDGET,
    "requested API version \"v1alpha\" is not supported by kubelet. Supported version is [\"v1beta1\"]"
)]
#[case::plain_name("v1beta1", "widget", "the ResourceName \"widget\" is invalid")]
#[case::native_name(
    "v1beta1",
    "kubernetes.io/widget",
    "the ResourceName \"kubernetes.io/widget\" is invalid"
)]
#[tokio::test]
async fn a_wrong_registration_is_refused_in_kubelets_words(
    #[case] version: &str,
    #[case] resource: &str,
    #[case] text: &str,
) {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::serving(&node, "widget.sock", healthy(1));
    let error = plugin.register_as(version, resource).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (tonic::Code::Unknown, text));
}

#[tokio::test]
async fn a_folder_too_deep_for_sockets_is_named_at_start() {
    let mut node = TestNode::new();
    node.config.dir = node.config.dir.join("x".repeat(100));
    let error = node.try_kubelet().await.err().unwrap();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("device-plugins/kubelet.sock has") && cause.contains("at most 107 fit"),
        "{cause}"
    );
}
