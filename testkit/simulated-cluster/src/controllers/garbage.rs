//! Collects pods that nobody needs: of nodes that are gone, those that ended a while ago, and those that nobody could place.

use std::sync::Arc;
use std::time::Duration;

use fake_cluster::api::text;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Controllers;
use super::owners::{has_ended, is_deleting, owner_of};

/// Time between two collections (kube-controller-manager's own).
pub(super) const PERIOD: Duration = Duration::from_secs(20);
/// How long pods without an owner stay after their end. Kubernetes counts them; people delete them.
const KEPT: SignedDuration = SignedDuration::from_mins(10);
/// How long a pod may wait for a node before its author gives up. The next rest is judged at most 55 minutes after a pod came, so
/// that none which waits in vain is deleted unseen.
const GIVEN_UP: SignedDuration = SignedDuration::from_mins(60);

impl Controllers {
    /// Collects once.
    pub(super) async fn collect(&self, client: &kube::Client) {
        let now = self.clock.now();
        let [orphans, ended, waiting]: [Vec<Arc<Value>>; 3] = {
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
                    && owner_of(pod).is_none()
                    && ended_at(pod).is_none_or(|ended| now.duration_since(ended) > KEPT)
            };
            let waits = |pod: &&Arc<Value>| {
                let created = text(pod, "/metadata/creationTimestamp").parse::<Timestamp>();
                text(pod, "/spec/nodeName").is_empty()
                    && !has_ended(pod)
                    && created.is_ok_and(|created| now.duration_since(created) > GIVEN_UP)
            };
            let of = |is_so: &dyn Fn(&&Arc<Value>) -> bool| pods().filter(is_so).cloned().collect();
            [of(&is_orphan), of(&is_old), of(&waits)]
        };
        for pod in &orphans {
            self.delete(client, pod, Some(0)).await;
        }
        for pod in ended.iter().chain(&waiting) {
            self.delete(client, pod, None).await;
        }
        // The owner would make it anew.
        for owner in waiting.iter().filter_map(|pod| owner_of(pod)) {
            self.delete_owner(owner);
        }
    }
}

/// When the last of its containers ended; none where no status says it.
fn ended_at(pod: &Value) -> Option<Timestamp> {
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array)?;
    statuses.iter().filter_map(|status| text(status, "/state/terminated/finishedAt").parse().ok()).max()
}
