//! A kubelet and an API server that shows it an older state.

use fake_cluster::{Kubelet, System};
use serde_json::json;
use testkit_support::eventually;

use crate::test_node::{TestNode, container};

/// A kubelet whose way to the API server is this one.
async fn kubelet(node: &TestNode, client: kube::Client) -> Kubelet {
    Kubelet::start(&System::real(), client, &node.api, node.config.clone(), node.runtime.clone())
        .await
        .unwrap()
}

#[tokio::test]
async fn a_kubelet_that_begins_with_an_old_list_ends_what_is_gone_once_it_hears_of_it() {
    let node = TestNode::new();
    node.bind("p", json!({ "containers": [container("main", 0)] })).await;
    node.delete_within("p", 0).await;
    // The deletion, and what kubelet writes of its node before it lists.
    let client = kube::Client::new(node.api.lagging_router(3), "default");
    let _kubelet = kubelet(&node, client).await;
    eventually("the container to start", async || node.starts("main").first().cloned()).await;
    node.first_end().await;
    // What comes later is seen as ever.
    node.bind("q", json!({ "containers": [container("main", 0)] })).await;
    node.phase("q", "Running").await;
}
