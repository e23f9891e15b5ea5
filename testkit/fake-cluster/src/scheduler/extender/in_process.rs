//! An extender made of a closure that decides for each node whether it takes the pod.

use std::sync::Arc;

use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The part of the request that the closure sees; whole nodes are sent.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct FilterArgs {
    pod: Pod,
    nodes: NodeItems,
}

#[derive(Deserialize)]
struct NodeItems {
    items: Vec<Node>,
}

/// Answers `POST /filter`: a node passes where `filter` gives `Ok`; an error is the reason that users read.
pub(crate) fn filter_router(
    filter: impl Fn(&Pod, &Node) -> Result<(), String> + Send + Sync + 'static,
) -> Router {
    let filter = Arc::new(filter);
    let handler = move |Json(args): Json<FilterArgs>| {
        let answer = answer(&args, filter.as_ref());
        async move { Json(answer) }
    };
    Router::new().route("/filter", post(handler))
}

fn answer(args: &FilterArgs, filter: &impl Fn(&Pod, &Node) -> Result<(), String>) -> Value {
    let (mut passed, mut failed) = (Vec::new(), Map::new());
    for node in &args.nodes.items {
        match filter(&args.pod, node) {
            Ok(()) => passed.push(node),
            Err(reason) => {
                failed.insert(node.metadata.name.clone().unwrap_or_default(), reason.into());
            }
        }
    }
    json!({"Nodes": {"items": passed}, "FailedNodes": failed})
}
