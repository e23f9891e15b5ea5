//! The in-memory API server as its users see it: through a typed kube client.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where, in its helpers too")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what a test does beside the cluster is on the real system"
)]

mod as_json;
mod binding;
mod deletion;
mod events;
mod http;
mod objects;
mod past;
mod pods;
mod protobuf;
mod versions;
mod watch;

use std::fmt::Debug;

use fake_cluster::api::ApiServer;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::core::response::Status;
use kube::{Api, Client};
use serde_json::json;

/// A new server and a client of it.
fn start() -> (ApiServer, Client) {
    let server = ApiServer::default();
    let client = server.client();
    (server, client)
}

fn pods(client: &Client) -> Api<Pod> {
    Api::default_namespaced(client.clone())
}

/// A pod with one container `main` that asks for nothing.
fn plain_pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "workload"}]},
    }))
    .unwrap()
}

fn plain_node(name: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "status": {"allocatable": {"pods": "110"}},
    }))
    .unwrap()
}

async fn create_pod(client: &Client, name: &str) -> Pod {
    pods(client).create(&PostParams::default(), &plain_pod(name)).await.unwrap()
}

/// Binds a pod to a node without annotations.
async fn bind(client: &Client, pod: &str, node: &str) -> kube::Result<Status> {
    let body = json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
    post_binding(client, pod, &body).await
}

async fn post_binding(client: &Client, pod: &str, body: &serde_json::Value) -> kube::Result<Status> {
    pods(client).create_subresource("binding", pod, &PostParams::default(), body).await
}

/// The Status of a refused call.
fn refusal<T: Debug>(result: kube::Result<T>) -> Status {
    match result {
        Err(kube::Error::Api(status)) => *status,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
