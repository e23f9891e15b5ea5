//! An extender that does nothing but pass and bind: what any extender costs. Of a filter call it reads where the nodes
//! begin and end and sends them back; a bind is one Binding without a record. Served by [`super::serve`].

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use kube::api::{ObjectMeta, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Longest body, in bytes: that of ours.
const BODY_LIMIT: usize = 256 << 20;

/// The extender's routes.
pub(super) fn router(client: Client) -> Router {
    Router::new()
        .route("/filter", post(filter))
        // No node before another.
        .route("/prioritize", post(|| async { Json([(); 0]) }))
        .route("/bind", post(bind))
        .route("/readyz", get(|| async { "ok" }))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(client)
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Nodes<'a> {
    #[serde(borrow)]
    nodes: Option<&'a RawValue>,
    #[serde(borrow)]
    node_names: Option<&'a RawValue>,
    #[serde(skip_deserializing)]
    error: String,
}

async fn filter(body: Bytes) -> impl IntoResponse {
    let answer = serde_json::from_slice::<Nodes<'_>>(&body).unwrap_or_else(|error| Nodes {
        nodes: None,
        node_names: None,
        error: error.to_string(),
    });
    // Borrowed text is written as it stands, which cannot fail; kube-scheduler would refuse an empty body.
    ([(CONTENT_TYPE, "application/json")], serde_json::to_vec(&answer).unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BindArgs {
    pod_name: String,
    pod_namespace: String,
    #[serde(rename = "PodUID")]
    pod_uid: String,
    node: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Bound {
    error: String,
}

async fn bind(State(client): State<Client>, body: Bytes) -> Json<Bound> {
    let bound = post_binding(client, &body).await;
    Json(Bound { error: bound.err().map(|error| format!("{error:#}")).unwrap_or_default() })
}

async fn post_binding(client: Client, body: &[u8]) -> anyhow::Result<()> {
    let BindArgs { pod_name, pod_namespace, pod_uid, node } = serde_json::from_slice(body)?;
    let metadata = ObjectMeta { name: Some(pod_name.clone()), uid: Some(pod_uid), ..ObjectMeta::default() };
    let target = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node),
        ..ObjectReference::default()
    };
    let pods: Api<Pod> = Api::namespaced(client, &pod_namespace);
    let binding = Binding { metadata, target };
    pods.create_subresource::<_, Status>("binding", &pod_name, &PostParams::default(), &binding).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_go_back_as_they_came() {
        let asked = br#"{"Pod":{"metadata":{}},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}}]},"NodeNames":null}"#;
        let nodes: Nodes<'_> = serde_json::from_slice(asked).unwrap();
        assert_eq!(
            serde_json::to_string(&nodes).unwrap(),
            r#"{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}}]},"NodeNames":null,"Error":""}"#
        );
    }
}
