//! A scheduler extender that keeps pods on the disks they ask for and prefers newer nodes. It binds nothing.
//!
//! The annotation `example.com/disk` of a pod has to equal the label of that name of its node; the label
//! `example.com/generation`, a number up to 10, is the node's score. kube-scheduler has to send whole nodes
//! (`nodeCacheCapable: false`).
//!
//! ```sh
//! cargo run -p other-extender -- 127.0.0.1:8888
//! ```

use std::collections::BTreeMap;

use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::{Deserialize, Serialize};

const DISK: &str = "example.com/disk";
const GENERATION: &str = "example.com/generation";

/// Body of both calls. kube-scheduler writes Go's field names.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ExtenderArgs {
    pod: Pod,
    nodes: NodeItems,
}

#[derive(Deserialize, Serialize)]
struct NodeItems {
    items: Vec<Node>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct FilterResult {
    nodes: NodeItems,
    /// The reason of each node that does not take the pod.
    failed_nodes: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostPriority {
    host: String,
    /// 0 to 10.
    score: i64,
}

/// `POST /filter` and `POST /prioritize`.
pub fn router() -> Router {
    Router::new().route("/filter", post(filter)).route("/prioritize", post(prioritize))
}

async fn filter(Json(args): Json<ExtenderArgs>) -> Json<FilterResult> {
    let wanted = args.pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DISK));
    let takes = |node: &Node| wanted.is_none() || label(node, DISK) == wanted.map(String::as_str);
    let (items, others): (Vec<_>, Vec<_>) = args.nodes.items.into_iter().partition(takes);
    let reason = |node: &Node| match label(node, DISK) {
        Some(disk) => format!("disk {disk}"),
        None => "no disk label".to_owned(),
    };
    let failed_nodes = others.iter().map(|node| (name(node), reason(node))).collect();
    Json(FilterResult { nodes: NodeItems { items }, failed_nodes })
}

async fn prioritize(Json(args): Json<ExtenderArgs>) -> Json<Vec<HostPriority>> {
    let score = |node: &Node| label(node, GENERATION).and_then(|number| number.parse().ok()).unwrap_or(0);
    let priority = |node: &Node| HostPriority { host: name(node), score: score(node).clamp(0, 10) };
    Json(args.nodes.items.iter().map(priority).collect())
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn name(node: &Node) -> String {
    node.metadata.name.clone().unwrap_or_default()
}
