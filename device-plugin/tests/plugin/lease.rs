//! The Lease by which a plugin says that it lives.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node as KubernetesNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::{Api, ResourceExt};
use testkit_support::eventually;

use crate::node::{NODE, Node};

impl Node {
    async fn lease(&self) -> Option<Lease> {
        let leases: Api<Lease> = Api::namespaced(self.api.client(), "kube-system");
        leases.get_opt(&format!("neuron-device-plugin-{NODE}")).await.unwrap()
    }

    /// When the Lease was renewed last.
    async fn renewed(&self) -> Option<MicroTime> {
        self.lease().await?.spec?.renew_time
    }
}

#[tokio::test]
async fn the_lease_is_renewed_and_belongs_to_its_node() {
    let mut node = Node::new("inf2.xlarge");
    node.config.lease_renewal = Duration::from_millis(250);
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    eventually("the Lease is there", async || node.lease().await).await;
    let first = node.renewed().await;
    eventually("it is renewed", async || (node.renewed().await != first).then_some(())).await;

    let lease = node.lease().await.unwrap();
    let nodes: Api<KubernetesNode> = Api::all(node.api.client());
    let owner = &lease.owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("Node", NODE));
    assert_eq!(Some(&owner.uid), nodes.get(NODE).await.unwrap().uid().as_ref());
    let LeaseSpec { holder_identity, lease_duration_seconds, .. } = lease.spec.unwrap();
    assert_eq!((holder_identity.as_deref(), lease_duration_seconds), (Some(NODE), Some(1)));
}

#[tokio::test]
async fn without_a_namespace_there_is_no_lease_and_devices_are_served() {
    let mut node = Node::new("inf2.xlarge");
    node.config.lease_namespace = None;
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 1).await;
    assert!(node.lease().await.is_none());
}
