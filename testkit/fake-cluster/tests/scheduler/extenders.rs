//! Kubernetes' own cases of `extender_test.go` by name, then what goes over the wire and what may go wrong.

use std::time::Duration;

use fake_cluster::scheduler::{ExtenderConfig, ManagedResource};
use rstest::rstest;
use serde_json::{Value, json};

use crate::cluster::{Cluster, DEVICE};
use crate::fake_extender::{Answer, FakeExtender, filter_answer};

/// Kubernetes' test extenders by name.
async fn extender(predicate: &'static str, prioritizer: &'static str) -> FakeExtender {
    FakeExtender::start(move |verb, body| match (verb, predicate, prioritizer) {
        ("filter", "error", _) => Answer::Json(json!({"Error": "some error"})),
        ("filter", "true", _) => filter_answer(body, |_| None),
        ("filter", "false", _) => filter_answer(body, |_| Some("refused")),
        ("filter", only, _) => filter_answer(body, move |node| (node != only).then_some("not this one")),
        (_, _, "error") => Answer::Status(500),
        (_, _, best) => Answer::Json(Value::from_iter(
            body["NodeNames"]
                .as_array()
                .unwrap()
                .iter()
                .map(|node| json!({"Host": node, "Score": if node == best { 10 } else { 1 }})),
        )),
    })
    .await
}

#[rstest]
#[case::test_1_an_error_fails_the_pod(&[("true", false), ("error", false)], None)]
#[case::test_2_all_nodes_refused(&[("true", false), ("false", false)], None)]
#[case::test_3_the_second_extender_narrows(&[("true", false), ("node1", false)], Some("node1"))]
#[case::test_4_extenders_that_disagree(&[("node2", false), ("node1", false)], None)]
#[case::test_9_an_ignorable_error_is_passed_over(&[("error", true), ("node1", false)], Some("node1"))]
#[case::test_11_no_extender(&[], Some("node1"))]
#[tokio::test]
async fn scheduler_with_extenders(
    #[case] predicates: &[(&'static str, bool)],
    #[case] expected: Option<&str>,
) {
    let cluster = Cluster::new();
    cluster.node("node1", 4, json!({})).await;
    if !predicates.is_empty() {
        cluster.node("node2", 4, json!({})).await;
    }
    let mut extenders = Vec::new();
    for (predicate, ignorable) in predicates {
        extenders.push(ExtenderConfig { ignorable: *ignorable, ..extender(predicate, "").await.filter() });
    }
    let scheduler = cluster.schedule(extenders);
    cluster.pod("p", 1, json!({})).await;
    match expected {
        Some(node) => assert_eq!(cluster.bound("p").await, node),
        None => drop(cluster.refused("p").await),
    }
    scheduler.stop().await;
}

#[rstest]
#[case::test_5_a_prioritize_error_is_dropped(&[("error", 10), ("node1", 1)], "node1")]
#[case::test_6_weights_decide(&[("node1", 10), ("node2", 5)], "node1")]
#[case::test_7_the_heavier_one_wins(&[("node1", 10), ("node2", 20)], "node2")]
#[tokio::test]
async fn scheduler_with_prioritizers(#[case] prioritizers: &[(&'static str, i64)], #[case] expected: &str) {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1", "node2", "node3"]).await;
    let mut extenders = Vec::new();
    for (prioritizer, weight) in prioritizers {
        extenders.push(extender("true", prioritizer).await.prioritize(*weight));
    }
    let scheduler = cluster.schedule(extenders);
    cluster.pod("p", 1, json!({})).await;
    assert_eq!(cluster.bound("p").await, expected);
    scheduler.stop().await;
}

#[tokio::test]
async fn test_8_an_extender_that_is_not_interested_is_not_asked() {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1"]).await;
    let error = extender("error", "error").await;
    let config = error.prioritize(10).with_managed_resource("example.com/other");
    let scheduler = cluster.schedule(vec![config]);
    cluster.pod("p", 1, json!({})).await;
    assert_eq!(cluster.bound("p").await, "node1");
    assert!(error.bodies("filter").is_empty());
    scheduler.stop().await;
}

#[tokio::test]
async fn test_10_only_nodes_that_passed_before_are_asked_about() {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1", "node2"]).await;
    cluster.node("full", 0, json!({})).await;
    let (first, second) = (extender("node2", "").await, extender("true", "").await);
    let scheduler = cluster.schedule(vec![first.filter(), second.filter()]);
    cluster.pod("p", 1, json!({})).await;
    assert_eq!(cluster.bound("p").await, "node2");
    let asked = |extender: &FakeExtender| {
        let body: Value = serde_json::from_str(&extender.bodies("filter")[0]).unwrap();
        body["NodeNames"].clone()
    };
    assert_eq!(asked(&first), json!(["node1", "node2"]));
    assert_eq!(asked(&second), json!(["node2"]));
    scheduler.stop().await;
}

#[rstest]
#[case::empty_managed_resources(None, json!({}), true)]
#[case::managed_memory_empty_resources(Some("memory"), json!({}), false)]
#[case::managed_memory_container_requests_memory(Some("memory"),
    json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": "1Ki"}}}]}), true)]
#[case::managed_memory_container_limits_memory(Some("memory"),
    json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"memory": "1Ki"}}}]}), true)]
#[case::managed_memory_init_container_requests_memory(Some("memory"),
    json!({"initContainers": [{"name": "i", "image": "i", "resources": {"requests": {"memory": "1Ki"}}}]}), true)]
#[case::managed_memory_init_container_limits_memory(Some("memory"),
    json!({"initContainers": [{"name": "i", "image": "i", "resources": {"limits": {"memory": "1Ki"}}}]}), true)]
#[tokio::test]
async fn is_interested(#[case] managed: Option<&str>, #[case] spec: Value, #[case] expected: bool) {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1"]).await;
    let extender = extender("true", "").await;
    let config = managed.into_iter().fold(extender.filter(), ExtenderConfig::with_managed_resource);
    let scheduler = cluster.schedule(vec![config]);
    cluster.pod("p", 0, spec).await;
    cluster.bound("p").await;
    assert_eq!(!extender.bodies("filter").is_empty(), expected);
    scheduler.stop().await;
}

#[rstest]
#[case::names(true, r#","Nodes":null,"NodeNames":["node1","node2"]}"#)]
#[case::whole_nodes(false, r#","Nodes":{"metadata":{},"items":[{"metadata":{"#)]
#[tokio::test]
async fn the_request_carries_what_the_node_mode_says(#[case] by_name: bool, #[case] expected: &str) {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1", "node2"]).await;
    let extender = FakeExtender::start(|_, body| {
        let nodes = body["Nodes"].clone();
        Answer::Json(json!({"nodes": nodes, "nodenames": body["NodeNames"]}))
    })
    .await;
    let scheduler =
        cluster.schedule(vec![ExtenderConfig { node_cache_capable: by_name, ..extender.filter() }]);
    cluster.pod("p", 1, json!({})).await;
    cluster.bound("p").await;
    let body = extender.bodies("filter").remove(0);
    assert!(body.starts_with(r#"{"Pod":{"metadata":{"#), "{body}");
    assert!(body.contains(expected), "{body}");
    assert_eq!(body.contains(r#""NodeNames":null}"#), !by_name, "{body}");
    scheduler.stop().await;
}

#[rstest]
#[case::http_500(Answer::Status(500), "failed filter with extender at URL {url}/filter, code 500")]
#[case::error_set(Answer::Json(json!({"NodeNames": ["node1"], "Error": "out of order"})), "out of order")]
#[case::foreign_node(Answer::Json(json!({"NodeNames": ["elsewhere"]})),
    "extender \"{url}\" claims a filtered node \"elsewhere\" which is not found in the input node list")]
#[case::time_out(
    Answer::Never,
    "Post \"{url}/filter\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
)]
#[tokio::test]
async fn a_failed_filter_call_fails_the_pod(#[case] answer: Answer, #[case] expected: &str) {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1"]).await;
    let extender = FakeExtender::start(move |_, _| answer.clone()).await;
    let config = ExtenderConfig { http_timeout: Duration::from_millis(300), ..extender.filter() };
    let scheduler = cluster.schedule(vec![config]);
    cluster.pod("p", 1, json!({})).await;
    let expected = expected.replace("{url}", &extender.url);
    let condition = cluster.refused("p").await;
    assert_eq!(condition.message.as_deref(), Some(expected.as_str()));
    assert_eq!(condition.reason.as_deref(), Some("SchedulerError"));
    let event = cluster.event("p", "FailedScheduling").await;
    assert_eq!(event.note.as_deref(), Some(expected.as_str()));
    scheduler.stop().await;
}

#[tokio::test]
async fn an_extender_that_is_not_there_fails_the_pod() {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1"]).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let config = ExtenderConfig::new(format!("http://{address}/")).with_filter("filter");
    let scheduler = cluster.schedule(vec![config]);
    cluster.pod("p", 1, json!({})).await;
    let message = cluster.refused("p").await.message.unwrap();
    assert_eq!(
        message,
        format!("Post \"http://{address}/filter\": dial tcp {address}: connect: connection refused")
    );
    scheduler.stop().await;
}

#[tokio::test]
async fn a_resource_ignored_by_the_scheduler_is_left_to_the_extender() {
    let cluster = Cluster::new();
    cluster.nodes_named(["node1"]).await;
    let extender = FakeExtender::start(|_, body| filter_answer(body, |_| Some("only 4 devices here"))).await;
    let managed = ManagedResource { name: DEVICE.into(), ignored_by_scheduler: true };
    let scheduler =
        cluster.schedule(vec![ExtenderConfig { managed_resources: vec![managed], ..extender.filter() }]);
    cluster.pod("p", 5, json!({})).await;
    let message = cluster.refused("p").await.message.unwrap();
    assert!(message.starts_with("0/1 nodes are available: 1 only 4 devices here. "), "{message}");
    scheduler.stop().await;
}
