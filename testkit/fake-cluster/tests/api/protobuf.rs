//! What is answered where only protobuf is accepted. That it can be read the extender's tests show.

use ::http::Request;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use testkit_support::within;

use super::{create_pod, start};

/// The answer's status, its content type and the beginning of its body.
async fn get(client: &Client, path: &str) -> (u16, String, Vec<u8>) {
    let request = Request::get(path).header("accept", "application/vnd.kubernetes.protobuf");
    let answer = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
    let (code, kind) =
        (answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap().to_owned());
    let mut body = answer.into_body();
    let frame = within("the first frame", body.frame()).await.unwrap().unwrap();
    (code, kind, frame.into_data().unwrap().to_vec())
}

fn holds(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn pods_and_refusals_are_answered_in_it() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let (code, kind, body) = get(&client, "/api/v1/pods").await;
    assert_eq!((code, kind.as_str()), (200, "application/vnd.kubernetes.protobuf"));
    assert!(body.starts_with(b"k8s\0") && holds(&body, "PodList") && holds(&body, "workload"), "{body:?}");
    let (code, _, body) = get(&client, "/api/v1/namespaces/default/pods/b").await;
    assert_eq!(code, 404);
    assert!(body.starts_with(b"k8s\0") && holds(&body, "pods \"b\" not found"), "{body:?}");
}

#[tokio::test]
async fn a_watch_is_frames_with_their_lengths() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let (code, kind, frame) = get(&client, "/api/v1/pods?watch=true").await;
    assert_eq!((code, kind.as_str()), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
    let length = u32::from_be_bytes(frame[..4].try_into().unwrap());
    assert_eq!(length as usize, frame.len() - 4);
    assert!(holds(&frame, "ADDED") && holds(&frame, "k8s\0"), "{frame:?}");
}

#[tokio::test]
async fn other_kinds_are_refused() {
    let server = ApiServer::new(Clock::new());
    let (code, _, body) = get(&server.client(), "/apis/coordination.k8s.io/v1/leases").await;
    assert_eq!(code, 406);
    assert!(holds(&body, "only the following media types are accepted"), "{body:?}");
}
