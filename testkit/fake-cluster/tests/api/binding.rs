//! Binding a pod to a node.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::response::Status;
use serde_json::json;

use super::{bind, create_pod, plain_pod, pods, post_binding, refusal, start};

#[tokio::test]
async fn a_binding_brings_node_annotations_and_time_in_one_write() {
    let (server, client) = start();
    let pod = create_pod(&client, "a").await;
    let waiting = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
    pods(&client).patch_status("a", &PatchParams::default(), &Patch::Strategic(waiting)).await.unwrap();
    server.clock().advance(Duration::from_millis(61_700));
    let binding = json!({
        "metadata": {"name": "a", "uid": pod.uid(), "annotations": {"x": "y"}},
        "target": {"kind": "Node", "name": "n1"},
    });
    let answer = post_binding(&client, "a", &binding).await.unwrap();
    assert!(answer.is_success());
    let pod = pods(&client).get("a").await.unwrap();
    assert_eq!(pod.annotations()["x"], "y");
    assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n1"));
    let conditions = pod.status.unwrap().conditions.unwrap();
    assert_eq!(conditions.len(), 1);
    assert_eq!((conditions[0].type_.as_str(), conditions[0].status.as_str()), ("PodScheduled", "True"));
    assert_eq!(conditions[0].last_transition_time.as_ref().unwrap().0.to_string(), "2026-01-01T00:01:01Z");
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    bind(&client, "a", "n1").await.unwrap();
    let refused = refusal(bind(&client, "a", "n2").await);
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        refused.message,
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""
    );
    assert_eq!(refusal(bind(&client, "missing", "n1").await).code, 404);
}

#[tokio::test]
async fn a_binding_that_means_another_pod_or_version_is_refused() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    for (field, value, named) in [("uid", "other", "UID"), ("resourceVersion", "1", "ResourceVersion")] {
        let mut binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
        binding["metadata"][field] = value.into();
        let refused = refusal(post_binding(&client, "a", &binding).await);
        assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
        let wanted =
            format!("Precondition failed: {named} in precondition: {value}, {named} in object meta: ");
        assert!(refused.message.contains(&wanted), "{}", refused.message);
    }
    assert_eq!(pods(&client).get("a").await.unwrap().spec.unwrap().node_name, None);
}

#[tokio::test]
async fn a_pod_on_its_way_out_or_behind_a_gate_is_not_bound() {
    let (_server, client) = start();
    // Only a pod on a node lingers, so this one was created there.
    let mut leaving = plain_pod("leaving");
    leaving.spec.as_mut().unwrap().node_name = Some("n1".into());
    pods(&client).create(&Default::default(), &leaving).await.unwrap();
    pods(&client).delete("leaving", &DeleteParams::default()).await.unwrap();
    let refused = refusal(bind(&client, "leaving", "n1").await);
    assert!(refused.message.ends_with("pod leaving is being deleted, cannot be assigned to a host"));

    let mut gated = plain_pod("gated");
    gated.spec.as_mut().unwrap().scheduling_gates =
        serde_json::from_value(json!([{"name": "wait"}])).unwrap();
    pods(&client).create(&Default::default(), &gated).await.unwrap();
    let refused = refusal(bind(&client, "gated", "n1").await);
    assert_eq!(refused.code, 409);
    assert!(refused.message.ends_with("pod gated has non-empty .spec.schedulingGates"));
}

#[tokio::test]
async fn a_binding_needs_a_node() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let refused = refusal(bind(&client, "a", "").await);
    // Kubernetes makes no Invalid of it.
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
    assert_eq!(refused.message, "target.name: Required value");
    let to_a_pod = json!({"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": ""}});
    assert_eq!(
        refusal(post_binding(&client, "a", &to_a_pod).await).message,
        "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]"
    );
}

#[tokio::test]
async fn a_binding_may_say_how_long_it_may_take() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let send = async |time: &str| {
        let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
        let path = format!("/api/v1/namespaces/default/pods/a/binding?timeout={time}");
        let request = http::Request::post(path).header("Content-Type", "application/json");
        client.request::<Status>(request.body(binding.to_string().into_bytes()).unwrap()).await
    };
    let refused = refusal(send("soon").await);
    assert_eq!((refused.code, refused.reason.as_str()), (400, "BadRequest"));
    assert!(
        refused.message.starts_with("invalid timeout specified in the request URL"),
        "{}",
        refused.message
    );
    assert!(send("2999ms").await.unwrap().is_success());
}
