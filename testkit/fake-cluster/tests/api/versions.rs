//! What the API server does in one version and not in the other (docs/reference/kubernetes.md §8).

use std::collections::BTreeMap;

use fake_cluster::api::ApiServer;
use fake_cluster::{Clock, Version};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use rstest::rstest;
use serde_json::json;

use super::{bind, create_pod, plain_node, plain_pod, pods, post_binding, refusal};

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";

fn client_of(version: Version) -> Client {
    ApiServer::default().with_version(version).client()
}

#[rstest]
#[case::v1_34(Version::V1_34, "34", "v1.34.4")]
#[case::v1_37(Version::V1_37, "37", "v1.37.2")]
#[tokio::test]
async fn it_says_its_version(#[case] version: Version, #[case] minor: &str, #[case] release: &str) {
    let info = client_of(version).apiserver_version().await.unwrap();
    assert_eq!((info.major.as_str(), info.minor.as_str(), info.git_version.as_str()), ("1", minor, release));
    assert_eq!(Version::of_server(&info.git_version), Ok(version));
}

#[tokio::test]
async fn another_version_is_another_server_with_the_same_clock() {
    let clock = Clock::new();
    let newest = ApiServer::new(clock.clone());
    assert_eq!(newest.version(), Version::V1_37);
    create_pod(&newest.client(), "a").await;
    let oldest = newest.clone().with_version(Version::V1_34);
    assert_eq!((oldest.version(), newest.version()), (Version::V1_34, Version::V1_37));
    assert_eq!(pods(&oldest.client()).list(&ListParams::default()).await.unwrap().items, []);
    clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(oldest.clock().now(), newest.clock().now());
}

#[rstest]
#[case::v1_34(Version::V1_34, Some("n2"))]
#[case::v1_37(Version::V1_37, None)]
#[tokio::test]
async fn a_binding_clears_the_nomination_since_1_35(#[case] version: Version, #[case] left: Option<&str>) {
    let client = client_of(version);
    create_pod(&client, "a").await;
    let nominated = Patch::Merge(json!({"status": {"nominatedNodeName": "n2"}}));
    pods(&client).patch_status("a", &PatchParams::default(), &nominated).await.unwrap();
    bind(&client, "a", "n1").await.unwrap();
    let pod = pods(&client).get("a").await.unwrap();
    assert_eq!(pod.status.unwrap().nominated_node_name.as_deref(), left);
}

/// A server of this version with the node `n1` in a zone and a region.
async fn with_a_node_in_a_zone(version: Version) -> Client {
    let client = client_of(version);
    let mut node = plain_node("n1");
    node.labels_mut().extend([(ZONE, "a"), (REGION, "r"), ("other", "x")].map(label));
    Api::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
    client
}

fn label((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn labels<const N: usize>(labels: [(&str, &str); N]) -> BTreeMap<String, String> {
    labels.map(label).into()
}

/// `a` with the labels `app` and a zone of its own.
fn labelled_pod() -> Pod {
    let mut pod = plain_pod("a");
    pod.labels_mut().extend([("app", "web"), (ZONE, "own")].map(label));
    pod
}

#[rstest]
#[case::v1_34(Version::V1_34, labels([("app", "web"), (ZONE, "own")]))]
#[case::v1_37(Version::V1_37, labels([("app", "web"), ("from", "binding"), (ZONE, "a"), (REGION, "r")]))]
#[tokio::test]
async fn a_pod_takes_over_labels_when_it_is_bound_since_1_35(
    #[case] version: Version,
    #[case] expected: BTreeMap<String, String>,
) {
    let client = with_a_node_in_a_zone(version).await;
    pods(&client).create(&PostParams::default(), &labelled_pod()).await.unwrap();
    let binding = json!({
        "metadata": {"name": "a", "labels": {"from": "binding"}},
        "target": {"kind": "Node", "name": "n1"},
    });
    post_binding(&client, "a", &binding).await.unwrap();
    assert_eq!(*pods(&client).get("a").await.unwrap().labels(), expected);
}

#[rstest]
#[case::v1_34(Version::V1_34, labels([("app", "web"), (ZONE, "own")]))]
#[case::v1_37(Version::V1_37, labels([("app", "web"), (ZONE, "a"), (REGION, "r")]))]
#[tokio::test]
async fn a_pod_takes_over_labels_when_it_is_created_on_a_node_since_1_35(
    #[case] version: Version,
    #[case] expected: BTreeMap<String, String>,
) {
    let client = with_a_node_in_a_zone(version).await;
    let mut pod = labelled_pod();
    pod.spec.as_mut().unwrap().node_name = Some("n1".to_owned());
    let created = pods(&client).create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(*created.labels(), expected);
}

#[tokio::test]
async fn a_binding_without_a_kind_or_to_an_unknown_node_brings_no_zone() {
    let client = with_a_node_in_a_zone(Version::V1_37).await;
    create_pod(&client, "a").await;
    create_pod(&client, "b").await;
    let without_kind = json!({"metadata": {"name": "a"}, "target": {"name": "n1"}});
    post_binding(&client, "a", &without_kind).await.unwrap();
    bind(&client, "b", "n2").await.unwrap();
    for pod in ["a", "b"] {
        assert_eq!(*pods(&client).get(pod).await.unwrap().labels(), BTreeMap::new());
    }
}

#[rstest]
#[case::an_underscore("n_1")]
#[case::a_capital("N1")]
#[case::an_empty_label("n1..example")]
#[case::a_dash_at_the_end("n1-")]
#[tokio::test]
async fn a_binding_needs_a_possible_name_of_a_node_since_1_37(#[case] node: &str) {
    let old = client_of(Version::V1_34);
    create_pod(&old, "a").await;
    bind(&old, "a", node).await.unwrap();
    assert_eq!(pods(&old).get("a").await.unwrap().spec.unwrap().node_name.as_deref(), Some(node));

    let new = client_of(Version::V1_37);
    create_pod(&new, "a").await;
    let refused = refusal(bind(&new, "a", node).await);
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
    let expected = format!(
        "target.name: Invalid value: \"{node}\": a lowercase RFC 1123 subdomain must consist of lower case \
         alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
         'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    );
    assert_eq!(refused.message, expected);
    bind(&new, "a", "ip-10-0-0-1.ec2.internal").await.unwrap();
}

#[tokio::test]
async fn a_name_of_a_node_has_253_bytes_at_most() {
    let client = client_of(Version::V1_37);
    create_pod(&client, "a").await;
    let too_long = "n".repeat(254);
    let refused = refusal(bind(&client, "a", &too_long).await);
    assert!(refused.message.ends_with(": must be no more than 253 bytes"), "{}", refused.message);
    bind(&client, "a", &too_long[1..]).await.unwrap();
}
