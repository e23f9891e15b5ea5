//! Pods on their way in: defaults, resource rules, which fields may change, and logs.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, LogParams, Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::{Value, json};

use super::http::send_patch;
use super::{bind, create_pod, pods, refusal, start};

fn pod_asking(resources: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main", "image": "workload", "resources": resources}]},
        "status": {"phase": "Running"},
    }))
    .unwrap()
}

#[tokio::test]
async fn a_new_pod_is_pending_and_requests_what_it_is_limited_to() {
    let (_server, client) = start();
    let pod =
        pod_asking(json!({"limits": {"example.com/thing": 2, "cpu": "0.5"}, "requests": {"cpu": "250m"}}));
    let pod = pods(&client).create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Pending"));
    let spec = pod.spec.unwrap();
    assert_eq!(spec.scheduler_name.as_deref(), Some("default-scheduler"));
    assert_eq!(spec.restart_policy.as_deref(), Some("Always"));
    let resources = spec.containers[0].resources.clone().unwrap();
    let amounts = |list: Option<std::collections::BTreeMap<String, _>>| json!(list.unwrap());
    assert_eq!(amounts(resources.limits), json!({"cpu": "500m", "example.com/thing": "2"}));
    assert_eq!(amounts(resources.requests), json!({"cpu": "250m", "example.com/thing": "2"}));
}

#[rstest]
#[case(
    json!({"limits": {"example.com/thing": "1500m"}, "requests": {"example.com/thing": "1500m"}}),
    "[spec.containers[0].resources.limits[example.com/thing]: Invalid value: \"1500m\": must be an integer, \
     spec.containers[0].resources.requests[example.com/thing]: Invalid value: \"1500m\": must be an integer]"
)]
#[case(
    json!({"requests": {"example.com/thing": "2"}}),
    "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"
)]
#[case(
    json!({"limits": {"example.com/thing": "2"}, "requests": {"example.com/thing": "1"}}),
    "spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to example.com/thing limit of 2"
)]
#[case(
    json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
    "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"
)]
#[case(
    json!({"limits": {"cpu": "1"}, "requests": {"cpu": "-1"}}),
    "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"
)]
#[tokio::test]
async fn resources_that_break_a_rule_are_refused(#[case] resources: Value, #[case] why: &str) {
    let (_server, client) = start();
    let refused = refusal(pods(&client).create(&PostParams::default(), &pod_asking(resources)).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert_eq!(refused.message, format!("Pod \"p\" is invalid: {why}"));
}

#[tokio::test]
async fn text_that_is_no_amount_is_refused() {
    let (_server, client) = start();
    let pod = pod_asking(json!({"limits": {"cpu": "two"}}));
    assert_eq!(refusal(pods(&client).create(&PostParams::default(), &pod).await).code, 400);
}

#[tokio::test]
async fn annotations_may_change_but_what_a_pod_asks_for_may_not() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    bind(&client, "a", "n1").await.unwrap();
    let parameters = PatchParams::default();
    let patch = json!({"metadata": {"annotations": {"x": "y"}}});
    let pod = pods(&client).patch("a", &parameters, &Patch::Merge(patch)).await.unwrap();
    assert_eq!(pod.annotations()["x"], "y");
    let patch = json!([{"op": "replace", "path": "/spec/nodeName", "value": "n2"}]);
    let path = "/api/v1/namespaces/default/pods/a";
    let refused = refusal(send_patch(&client, path, "application/json-patch+json", patch).await);
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert!(
        refused
            .message
            .starts_with("Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields")
    );
}

#[tokio::test]
async fn the_status_part_writes_status_and_annotations_but_not_the_spec() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let patch = json!({
        "metadata": {"annotations": {"x": "y"}},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let pod =
        pods(&client).patch_status("a", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
    assert_eq!(pod.annotations()["x"], "y");
    assert_eq!(pod.spec.unwrap().node_name, None);
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
}

#[tokio::test]
async fn logs_are_what_was_stored_for_the_container() {
    let (server, client) = start();
    create_pod(&client, "a").await;
    let waiting = refusal(pods(&client).logs("a", &LogParams::default()).await);
    assert_eq!(waiting.message, "container \"main\" in pod \"a\" is waiting to start: ContainerCreating");
    server.set_log("default", "a", "main", "hello\n");
    assert_eq!(pods(&client).logs("a", &LogParams::default()).await.unwrap(), "hello\n");
    let other = LogParams { container: Some("other".into()), ..LogParams::default() };
    let refused = refusal(pods(&client).logs("a", &other).await);
    assert_eq!(refused.message, "container other is not valid for pod a");

    // The next pod of that name shows neither the old text nor one that was stored after the deletion.
    pods(&client).delete("a", &DeleteParams::default()).await.unwrap();
    server.set_log("default", "a", "main", "late\n");
    create_pod(&client, "a").await;
    assert_eq!(refusal(pods(&client).logs("a", &LogParams::default()).await).code, 400);
}
