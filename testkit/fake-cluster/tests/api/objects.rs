//! Creating, reading, replacing and patching objects of any kind.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, ObjectList, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{create_pod, plain_node, plain_pod, pods, refusal, start};

#[tokio::test]
async fn a_new_object_gets_its_uid_version_and_time_and_can_be_read_again() {
    let (_server, client) = start();
    let created = create_pod(&client, "a").await;
    assert_eq!(created.namespace().unwrap(), "default");
    assert_eq!(created.metadata.creation_timestamp.as_ref().unwrap().0.to_string(), "2026-01-01T00:00:00Z");
    assert!(created.uid().unwrap().starts_with("00000000-0000-4000-8000-"));
    assert_eq!(pods(&client).get("a").await.unwrap(), created);
}

#[tokio::test]
async fn two_servers_give_the_same_uids_and_generated_names() {
    let mut seen = Vec::new();
    for _ in 0..2 {
        let (_server, client) = start();
        let mut pod = plain_pod("");
        pod.metadata.name = None;
        pod.metadata.generate_name = Some("job-".into());
        let created = pods(&client).create(&PostParams::default(), &pod).await.unwrap();
        assert_eq!(created.name_any().len(), "job-".len() + 5);
        seen.push((created.name_any(), created.uid()));
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn what_is_missing_taken_or_nameless_is_refused_in_the_api_servers_words() {
    let (_server, client) = start();
    let missing = refusal(pods(&client).get("x").await);
    assert_eq!((missing.code, missing.reason.as_str()), (404, "NotFound"));
    assert_eq!(missing.message, "pods \"x\" not found");

    create_pod(&client, "a").await;
    let taken = refusal(pods(&client).create(&PostParams::default(), &plain_pod("a")).await);
    assert_eq!((taken.code, taken.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(taken.message, "pods \"a\" already exists");

    let elsewhere: Api<Pod> = Api::namespaced(client.clone(), "nowhere");
    let homeless = refusal(elsewhere.create(&PostParams::default(), &plain_pod("a")).await);
    assert_eq!((homeless.code, homeless.message.as_str()), (404, "namespaces \"nowhere\" not found"));

    let leases: Api<Lease> = Api::default_namespaced(client);
    assert_eq!(refusal(leases.get("l").await).message, "leases.coordination.k8s.io \"l\" not found");
}

#[tokio::test]
async fn a_write_from_an_older_version_is_refused_and_an_empty_one_uses_no_version() {
    let (_server, client) = start();
    let nodes: Api<Node> = Api::all(client);
    let first = nodes.create(&PostParams::default(), &plain_node("n1")).await.unwrap();
    let mut second = first.clone();
    second.labels_mut().insert("a".into(), "b".into());
    let second = nodes.replace("n1", &PostParams::default(), &second).await.unwrap();
    let again = nodes.replace("n1", &PostParams::default(), &second).await.unwrap();
    assert_eq!(again.resource_version(), second.resource_version());

    let stale = refusal(nodes.replace("n1", &PostParams::default(), &first).await);
    assert_eq!((stale.code, stale.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        stale.message,
        "Operation cannot be fulfilled on nodes \"n1\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
}

#[tokio::test]
async fn a_lease_is_replaced_only_from_a_known_version() {
    let (_server, client) = start();
    let leases: Api<Lease> = Api::default_namespaced(client);
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": {}})).unwrap();
    let mut lease = leases.create(&PostParams::default(), &lease).await.unwrap();
    lease.metadata.resource_version = None;
    let refused = refusal(leases.replace("l", &PostParams::default(), &lease).await);
    assert_eq!(refused.code, 422);
    assert!(refused.message.ends_with("must be specified for an update"), "{}", refused.message);
}

#[tokio::test]
async fn lists_follow_selectors_and_namespaces() {
    let (_server, client) = start();
    for (name, app) in [("a", "web"), ("b", "db")] {
        let mut pod = plain_pod(name);
        pod.labels_mut().insert("app".into(), app.into());
        pods(&client).create(&PostParams::default(), &pod).await.unwrap();
    }
    super::bind(&client, "b", "n1").await.unwrap();
    let names = |list: ObjectList<Pod>| list.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let all: Api<Pod> = Api::all(client.clone());
    let of = |selector: ListParams| {
        let all = all.clone();
        async move { names(all.list(&selector).await.unwrap()) }
    };
    assert_eq!(of(ListParams::default()).await, ["a", "b"]);
    assert_eq!(of(ListParams::default().labels("app in (web)")).await, ["a"]);
    assert_eq!(of(ListParams::default().fields("spec.nodeName=n1")).await, ["b"]);
    assert_eq!(of(ListParams::default().fields("spec.nodeName=")).await, ["a"]);
    let system: Api<Pod> = Api::namespaced(client, "kube-system");
    assert!(system.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert_eq!(refusal(all.list(&ListParams::default().fields("spec.priority=1")).await).code, 400);
}

#[tokio::test]
async fn node_status_and_metadata_are_patched_apart() {
    let (_server, client) = start();
    let nodes: Api<Node> = Api::all(client);
    nodes.create(&PostParams::default(), &plain_node("n1")).await.unwrap();
    let parameters = PatchParams::default();
    let ready = json!({"status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"example.com/thing": "4"},
    }});
    nodes.patch_status("n1", &parameters, &Patch::Strategic(ready)).await.unwrap();
    let pressure = json!({"status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]}});
    let node = nodes.patch_status("n1", &parameters, &Patch::Strategic(pressure)).await.unwrap();
    let status = node.status.unwrap();
    assert_eq!(status.conditions.unwrap().len(), 2);
    let allocatable = status.allocatable.unwrap();
    assert_eq!((allocatable["pods"].0.as_str(), allocatable["example.com/thing"].0.as_str()), ("110", "4"));

    // Through the object itself the status cannot be written, and null deletes.
    let patch = json!({"metadata": {"annotations": {"a": "1", "b": "2"}}, "status": {"allocatable": null}});
    nodes.patch("n1", &parameters, &Patch::Merge(patch)).await.unwrap();
    let patch = json!({"metadata": {"annotations": {"a": null}}});
    let node = nodes.patch("n1", &parameters, &Patch::Merge(patch)).await.unwrap();
    assert_eq!(node.annotations().keys().collect::<Vec<_>>(), ["b"]);
    assert!(node.status.unwrap().allocatable.is_some());
}

#[tokio::test]
async fn a_patch_can_name_the_version_it_means() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let patch = json!({"metadata": {"resourceVersion": "1", "annotations": {"x": "y"}}});
    let refused = refusal(pods(&client).patch("a", &PatchParams::default(), &Patch::Merge(patch)).await);
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
}

#[tokio::test]
async fn apply_creates_what_is_missing_and_merges_what_is_there() {
    let (_server, client) = start();
    let leases: Api<Lease> = Api::default_namespaced(client);
    let apply = |spec: serde_json::Value| {
        let leases = leases.clone();
        async move {
            let object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec});
            let parameters = PatchParams::apply("test").force();
            leases.patch("l", &parameters, &Patch::Apply(object)).await.unwrap()
        }
    };
    apply(json!({"holderIdentity": "a", "leaseDurationSeconds": 15})).await;
    let lease = apply(json!({"holderIdentity": "b"})).await.spec.unwrap();
    assert_eq!((lease.holder_identity.as_deref(), lease.lease_duration_seconds), (Some("b"), Some(15)));
}

#[tokio::test]
async fn an_ill_typed_object_is_refused() {
    let (_server, client) = start();
    create_pod(&client, "a").await;
    let patch = json!({"metadata": {"annotations": {"count": 1}}});
    let refused = refusal(pods(&client).patch("a", &PatchParams::default(), &Patch::Merge(patch)).await);
    assert_eq!((refused.code, refused.reason.as_str()), (400, "BadRequest"));
}

#[tokio::test]
async fn a_dry_run_is_refused_rather_than_written() {
    let (_server, client) = start();
    let dry = PostParams { dry_run: true, field_manager: None };
    assert_eq!(refusal(pods(&client).create(&dry, &plain_pod("a")).await).code, 400);
    assert_eq!(refusal(pods(&client).get("a").await).code, 404);
}
