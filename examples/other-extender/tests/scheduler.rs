//! The extender against kube-scheduler's side of the protocol: in this process, and over HTTP.

#![allow(clippy::unwrap_used, reason = "a failing test should say where, in its helpers too")]

use fake_cluster::scheduler::{ExtenderConfig, SchedulerConfig};
use fake_cluster::{ApiServer, Scheduler, System};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams};
use serde_json::json;
use testkit_support::eventually;
use tokio::net::TcpListener;

/// Sends whole nodes to both calls.
fn configured(extender: ExtenderConfig) -> SchedulerConfig {
    let extender = extender.with_filter("filter").with_prioritize("prioritize", 1);
    let extender = ExtenderConfig { node_cache_capable: false, ..extender };
    SchedulerConfig::new("default-scheduler").with_extender(extender)
}

/// A cluster with a node for each disk and generation: n1, n2 and so on.
async fn cluster(nodes: &[(&str, &str)]) -> ApiServer {
    let server = ApiServer::default();
    let api: Api<Node> = Api::all(server.client());
    for (number, (disk, generation)) in nodes.iter().enumerate() {
        let labels = json!({"example.com/disk": disk, "example.com/generation": generation});
        let node = json!({"metadata": {"name": format!("n{}", number + 1), "labels": labels},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}});
        api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    server
}

async fn create_pod(server: &ApiServer, name: &str, disk: &str) {
    let pod = json!({"metadata": {"name": name, "annotations": {"example.com/disk": disk}},
        "spec": {"containers": [{"name": "main", "image": "none"}]}});
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

/// The pod's node once it is bound.
async fn node_of(server: &ApiServer, name: &str) -> String {
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    eventually(&format!("pod {name} to be bound"), async || pods.get(name).await.unwrap().spec?.node_name)
        .await
}

#[tokio::test]
async fn among_the_nodes_with_the_right_disk_the_newest_gets_the_pod() {
    let server = cluster(&[("ssd", "1"), ("ssd", "3"), ("hdd", "9")]).await;
    let extender = ExtenderConfig::in_process(other_extender::router());
    let scheduler = Scheduler::start(&System::real(), server.client(), &server, configured(extender));
    create_pod(&server, "p", "ssd").await;
    assert_eq!(node_of(&server, "p").await, "n2");
    scheduler.stop().await;
}

#[tokio::test]
async fn users_read_why_no_node_takes_a_pod() {
    let server = cluster(&[("ssd", "1"), ("hdd", "1")]).await;
    let extender = ExtenderConfig::in_process(other_extender::router());
    let scheduler = Scheduler::start(&System::real(), server.client(), &server, configured(extender));
    create_pod(&server, "p", "tape").await;
    let pods: Api<Pod> = Api::default_namespaced(server.client());
    let message = eventually("pod p to be refused", async || {
        let conditions = pods.get("p").await.unwrap().status?.conditions?;
        conditions.into_iter().find(|condition| condition.type_ == "PodScheduled")?.message
    })
    .await;
    assert!(message.starts_with("0/2 nodes are available: 1 disk hdd, 1 disk ssd. "), "{message}");
    scheduler.stop().await;
}

#[tokio::test]
async fn over_http_it_is_the_same() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, other_extender::router()).await });
    let server = cluster(&[("hdd", "1"), ("ssd", "1")]).await;
    let scheduler =
        Scheduler::start(&System::real(), server.client(), &server, configured(ExtenderConfig::new(url)));
    create_pod(&server, "p", "ssd").await;
    assert_eq!(node_of(&server, "p").await, "n2");
    scheduler.stop().await;
}
