//! What a kubelet writes though nothing has changed.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{Api, ResourceExt};
use testkit_support::eventually;

use crate::test_node::{NODE, TestNode};

async fn ready(node: &TestNode) -> NodeCondition {
    let node = Api::<Node>::all(node.api.client()).get(NODE).await.unwrap();
    node.status.unwrap().conditions.unwrap().remove(0)
}

#[tokio::test]
async fn a_kubelet_with_heartbeats_renews_its_lease_and_writes_its_status() {
    let mut node = TestNode::new();
    node.config.heartbeats = true;
    let _kubelet = node.kubelet().await;
    let leases: Api<Lease> = Api::namespaced(node.api.client(), "kube-node-lease");
    let lease = eventually("a lease", async || leases.get_opt(NODE).await.unwrap()).await;
    assert_eq!(lease.owner_references()[0].name, NODE);
    let spec = lease.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(NODE), Some(40)));
    for renewal in 1..=3 {
        // By chance it is renewed up to 4 % late.
        let due = node.clock.now();
        node.clock.advance(Duration::from_millis(10_400));
        eventually(&format!("renewal {renewal}"), async || {
            let renewed = leases.get(NODE).await.unwrap().spec?.renew_time?;
            (renewed.0 > due).then_some(())
        })
        .await;
    }

    let before = ready(&node).await;
    node.clock.advance(Duration::from_secs(4 * 60));
    assert_eq!(ready(&node).await, before);
    node.clock.advance(Duration::from_secs(72));
    let after = eventually("the status", async || {
        let ready = ready(&node).await;
        (ready.last_heartbeat_time != before.last_heartbeat_time).then_some(ready)
    })
    .await;
    assert_eq!(after.last_transition_time, before.last_transition_time);
}

#[tokio::test]
async fn a_kubelet_without_heartbeats_writes_only_changes() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    let before = ready(&node).await;
    node.clock.advance(Duration::from_secs(3600));
    assert_eq!(ready(&node).await, before);
    let leases: Api<Lease> = Api::namespaced(node.api.client(), "kube-node-lease");
    assert!(leases.get_opt(NODE).await.unwrap().is_none());
}
