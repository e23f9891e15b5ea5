//! Extenders in this process: a closure, and a router.

use axum::routing::post;
use axum::{Json, Router};
use fake_cluster::scheduler::ExtenderConfig;
use http::StatusCode;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::cluster::{Cluster, DEVICE};

fn in_zone(pod: &Pod, node: &Node) -> Result<(), String> {
    let wanted = pod.annotations().get("zone");
    if wanted.is_none() || node.labels().get("zone") == wanted {
        return Ok(());
    }
    Err(format!("not in zone {}", wanted.map_or("", String::as_str)))
}

#[tokio::test]
async fn a_closure_sees_whole_nodes_and_its_reason_reaches_the_user() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1", "n2"]).await;
    cluster.patch_node("n2", json!({"metadata": {"labels": {"zone": "a"}}})).await;
    let scheduler = cluster.schedule(vec![ExtenderConfig::filtering(in_zone)]);
    cluster.annotated_pod("p", json!({"zone": "a"})).await;
    assert_eq!(cluster.bound("p").await, "n2");
    cluster.annotated_pod("q", json!({"zone": "b"})).await;
    let message = cluster.refused("q").await.message.unwrap();
    assert!(message.starts_with("0/2 nodes are available: 2 not in zone b. "), "{message}");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_router_is_called_as_over_http() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1", "n2"]).await;
    let filter = async |Json(args): Json<Value>| Json(json!({"NodeNames": args["NodeNames"]}));
    let prioritize = async || Json(json!([{"Host": "n2", "Score": 10}]));
    let router = Router::new().route("/filter", post(filter)).route("/prioritize", post(prioritize));
    let extender = ExtenderConfig::in_process(router).with_filter("filter").with_prioritize("prioritize", 1);
    let scheduler = cluster.schedule(vec![extender]);
    cluster.pod("p", 1, json!({})).await;
    assert_eq!(cluster.bound("p").await, "n2");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_router_that_fails_fails_the_pod() {
    let cluster = Cluster::new();
    cluster.nodes_named(["n1"]).await;
    let router = Router::new().route("/filter", post(async || StatusCode::BAD_GATEWAY));
    let extender = ExtenderConfig::in_process(router).with_filter("filter").with_managed_resource(DEVICE);
    let scheduler = cluster.schedule(vec![extender]);
    cluster.pod("p", 1, json!({})).await;
    let condition = cluster.refused("p").await;
    assert_eq!(
        condition.message.as_deref(),
        Some("failed filter with extender at URL http://in-process/filter, code 502")
    );
    scheduler.stop().await;
}
