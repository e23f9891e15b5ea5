//! Keeps the cluster's index fed: one watch of pods, one of nodes. Started by [`crate::serve`].
//!
//! Only the fields that decide are kept.

mod follow;
mod list;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::core::Resource as _;

use self::follow::{Watched, follow};
use crate::cluster::Cluster;
use crate::objects::{seen_node, seen_pod};
use crate::protobuf;
use crate::seen::SeenPod;

/// Watches pods until the future is dropped.
pub(crate) async fn watch_pods(client: Client, cluster: Arc<Cluster>) {
    let pods = Watched {
        what: "pods",
        path: Pod::url_path(&(), None),
        // A pod that ends leaves the selection, which the watch reports as a deletion: it holds nothing any more.
        selector: Some("status.phase!=Succeeded,status.phase!=Failed"),
        key: |pod: &protobuf::Pod| pod.metadata.uid.clone(),
        seen: |pod| Some(seen_pod(pod)).filter(decides),
    };
    follow(&client, &pods, |change| cluster.write(|index| index.pods(change))).await;
}

/// Watches nodes until the future is dropped.
pub(crate) async fn watch_nodes(client: Client, cluster: Arc<Cluster>) {
    let nodes = Watched {
        what: "nodes",
        path: Node::url_path(&(), None),
        selector: None,
        key: |node: &protobuf::Node| node.metadata.name.clone(),
        seen: |node| Some(seen_node(node)),
    };
    follow(&client, &nodes, |change| cluster.write(|index| index.nodes(change))).await;
}

/// Whether the pod asks for Neuron hardware or carries a record.
fn decides(seen: &SeenPod) -> bool {
    !seen.pod.annotations.is_empty() || !seen.pod.request.as_ref().is_ok_and(|request| request.is_empty())
}
