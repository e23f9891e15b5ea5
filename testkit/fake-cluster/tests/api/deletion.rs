//! Deleting pods and other objects.

use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::{bind, create_pod, plain_node, pods, refusal, start};

#[tokio::test]
async fn a_pod_on_a_node_waits_for_its_kubelet() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    bind(&client, "a", "n1").await.unwrap();
    pods(&client).delete("a", &DeleteParams::default()).await.unwrap();
    let pod = pods(&client).get("a").await.unwrap();
    assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(pod.metadata.deletion_timestamp.unwrap().0.to_string(), "2026-01-01T00:00:30Z");

    // A second deletion shortens the wait and never lengthens it.
    for (grace, kept) in [(60, 30), (5, 5)] {
        pods(&client).delete("a", &DeleteParams::default().grace_period(grace)).await.unwrap();
        let pod = pods(&client).get("a").await.unwrap();
        assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(kept));
    }
    pods(&client).delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_eq!(refusal(pods(&client).get("a").await).code, 404);
}

#[tokio::test]
async fn a_pod_that_runs_nowhere_goes_at_once() {
    let (_server, client) = start();
    create_pod(&client, "unbound").await;
    pods(&client).delete("unbound", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(pods(&client).get("unbound").await).code, 404);

    create_pod(&client, "ended").await;
    bind(&client, "ended", "n1").await.unwrap();
    let patch = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods(&client).patch_status("ended", &PatchParams::default(), &patch).await.unwrap();
    pods(&client).delete("ended", &DeleteParams::default()).await.unwrap();
    assert_eq!(refusal(pods(&client).get("ended").await).code, 404);
}

#[tokio::test]
async fn a_deletion_that_means_another_object_is_refused() {
    let (_server, client) = start();
    let pod = create_pod(&client, "a").await;
    let meaning = |uid: &str| {
        DeleteParams::default().preconditions(Preconditions { uid: Some(uid.into()), resource_version: None })
    };
    let refused = refusal(pods(&client).delete("a", &meaning("other")).await);
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert!(refused.message.contains("the UID in the precondition (other) does not match the UID in record"));
    pods(&client).delete("a", &meaning(&pod.uid().unwrap())).await.unwrap();
}

#[tokio::test]
async fn nodes_go_at_once_and_namespaces_stay() {
    let (_server, client) = start();
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &plain_node("n1")).await.unwrap();
    let answer = nodes.delete("n1", &DeleteParams::default()).await.unwrap();
    assert!(answer.right().unwrap().is_success());
    assert_eq!(refusal(nodes.get("n1").await).code, 404);

    let namespaces: Api<Namespace> = Api::all(client);
    assert_eq!(refusal(namespaces.delete("default", &DeleteParams::default()).await).code, 405);
}
