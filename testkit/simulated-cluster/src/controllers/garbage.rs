//! Collects pods that nobody needs: of nodes that are gone, and those that ended a while ago.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Controllers;
use super::owners::{LABEL, has_ended, is_deleting};
use crate::observer::text;

/// Time between two collections (kube-controller-manager's own).
pub(super) const PERIOD: Duration = Duration::from_secs(20);
/// How long pods without an owner stay after their end. Kubernetes counts them; people delete them.
const KEPT: SignedDuration = SignedDuration::from_mins(10);

impl Controllers {
    /// Collects once.
    pub(super) async fn collect(&self, client: &kube::Client) {
        let now = self.clock.now();
        let (orphans, ended): (Vec<Arc<Value>>, Vec<Arc<Value>>) = {
            let state = self.watcher.state();
            let nodes = &state.mirror.nodes;
            let is_orphan = |pod: &&Arc<Value>| {
                let node = text(pod, "/spec/nodeName");
                !node.is_empty() && !nodes.contains_key(node)
            };
            let pods = || state.mirror.pods.values();
            let is_old = |pod: &&Arc<Value>| {
                has_ended(pod)
                    && !is_deleting(pod)
                    && pod.pointer("/metadata/labels").and_then(|labels| labels.get(LABEL)).is_none()
                    && ended_at(pod).is_none_or(|ended| now.duration_since(ended) > KEPT)
            };
            (pods().filter(is_orphan).cloned().collect(), pods().filter(is_old).cloned().collect())
        };
        for pod in &orphans {
            self.delete(client, pod, Some(0)).await;
        }
        for pod in &ended {
            self.delete(client, pod, None).await;
        }
    }
}

/// When the last of its containers ended; none where no status says it.
fn ended_at(pod: &Value) -> Option<Timestamp> {
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array)?;
    statuses.iter().filter_map(|status| text(status, "/state/terminated/finishedAt").parse().ok()).max()
}
