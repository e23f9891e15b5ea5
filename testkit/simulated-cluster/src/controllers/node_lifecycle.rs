//! Node lifecycle: a node whose Lease is not renewed is unreachable, and after five minutes its pods are deleted.

use std::sync::Arc;

use fake_cluster::api::text;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::Controllers;
use super::owners::is_deleting;

/// How long a Lease may go without being renewed (`--node-monitor-grace-period`).
const GRACE: SignedDuration = SignedDuration::from_secs(50);
/// How long pods stay on a node that is unreachable (the default `tolerationSeconds`).
const TOLERATED: SignedDuration = SignedDuration::from_secs(300);
/// The taint's key.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

impl Controllers {
    /// Looks at every node once.
    pub(super) async fn watch_nodes(&self, client: &kube::Client) {
        let (nodes, leases) = {
            let state = self.watcher.state();
            (state.mirror.nodes.clone(), state.mirror.node_leases.clone())
        };
        let now = self.clock.now();
        for (name, node) in nodes {
            // A node without a Lease has just been made.
            let renewed = leases.get(&name).and_then(|lease| time(lease, "/spec/renewTime"));
            let renewed = renewed.or_else(|| time(&node, "/metadata/creationTimestamp"));
            let is_silent = renewed.is_some_and(|renewed| now.duration_since(renewed) > GRACE);
            let tainted = taint(&node);
            match (is_silent, tainted) {
                (true, None) => self.set_unreachable(client, &name, &node, Some(now)).await,
                (false, Some(_)) => self.set_unreachable(client, &name, &node, None).await,
                (true, Some(since)) if now.duration_since(since) > TOLERATED => {
                    self.evict(client, &name).await
                }
                _ => {}
            }
        }
    }

    async fn set_unreachable(
        &self,
        client: &kube::Client,
        name: &str,
        node: &Value,
        since: Option<Timestamp>,
    ) {
        let taints = node.pointer("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut taints: Vec<Value> =
            taints.into_iter().filter(|taint| text(taint, "/key") != UNREACHABLE).collect();
        if let Some(since) = since {
            let time = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            taints.push(json!({"key": UNREACHABLE, "effect": "NoSchedule", "timeAdded": time}));
            taints.push(json!({"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": time}));
        }
        let nodes: Api<Node> = Api::all(client.clone());
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        if let Err(error) = nodes.patch(name, &PatchParams::default(), &patch).await {
            self.simulation.event("controllers", format_args!("node {name} not tainted: {error}"));
        }
    }

    async fn evict(&self, client: &kube::Client, node: &str) {
        let pods: Vec<Arc<Value>> = {
            let state = self.watcher.state();
            state.mirror.pods.values().filter(|pod| text(pod, "/spec/nodeName") == node).cloned().collect()
        };
        for pod in pods.iter().filter(|pod| !is_deleting(pod)) {
            self.delete(client, pod, None).await;
        }
    }
}

/// Since when the node is unreachable.
fn taint(node: &Value) -> Option<Timestamp> {
    let mut taints = node.pointer("/spec/taints").and_then(Value::as_array)?.iter();
    time(taints.find(|taint| text(taint, "/key") == UNREACHABLE)?, "/timeAdded")
}

fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}
