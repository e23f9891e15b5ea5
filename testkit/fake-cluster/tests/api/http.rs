//! The server over HTTP, and while it is unavailable.

use fake_cluster::System;
use fake_cluster::api::ApiServer;
use fake_cluster::system::Address;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, WatchParams};
use kube::{Client, Config};
use serde_json::Value;
use testkit_support::within;
use tokio_util::sync::CancellationToken;

use super::{create_pod, pods, refusal, start};

/// Sends a patch of any content type and reads the pod that comes back.
pub(crate) async fn send_patch(
    client: &Client,
    path: &str,
    content_type: &str,
    body: Value,
) -> kube::Result<Pod> {
    let request = ::http::Request::patch(path).header("content-type", content_type);
    client.request(request.body(serde_json::to_vec(&body).unwrap()).unwrap()).await
}

#[tokio::test]
async fn it_serves_over_http_until_shutdown_which_ends_open_watches() {
    let server = ApiServer::default();
    let system = System::real();
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let url = format!("http://{}", listener.address());
    let shutdown = CancellationToken::new();
    let serving = system.spawn(server.clone().serve(&system, listener, shutdown.clone()));

    let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
    create_pod(&client, "a").await;
    assert!(pods(&server.client()).get("a").await.is_ok());
    let watch = pods(&client).watch(&WatchParams::default(), "0").await.unwrap();
    let mut watch = Box::pin(watch);
    assert!(within("the pod", watch.try_next()).await.unwrap().is_some());
    shutdown.cancel();
    within("the end of the watch", async { while let Ok(Some(_)) = watch.try_next().await {} }).await;
    within("the end of the server", serving).await.unwrap();
}

#[tokio::test]
async fn while_it_is_unavailable_requests_get_503_and_open_watches_end() {
    let (server, client) = start();
    let mut watch = Box::pin(pods(&client).watch(&WatchParams::default(), "0").await.unwrap());
    server.set_available(false);
    assert!(within("the end of the watch", watch.try_next()).await.unwrap().is_none());
    let refused = refusal(pods(&client).list(&ListParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (503, "ServiceUnavailable"));
    server.set_available(true);
    assert!(pods(&client).list(&ListParams::default()).await.is_ok());
}

#[tokio::test]
async fn an_unknown_address_method_or_patch_is_refused_with_a_status() {
    let (_server, client) = start();
    let get = |path: &str| ::http::Request::get(path).body(Vec::new()).unwrap();
    let missing = refusal(client.request::<Value>(get("/apis/apps/v1/deployments")).await);
    assert_eq!(
        (missing.code, missing.message.as_str()),
        (404, "the server could not find the requested resource")
    );
    let put = ::http::Request::put("/api/v1/pods").body(Vec::new()).unwrap();
    assert_eq!(refusal(client.request::<Value>(put).await).code, 405);
    let sent = send_patch(&client, "/api/v1/nodes/n1", "text/plain", Value::Null).await;
    assert_eq!(refusal(sent).code, 415);
}
