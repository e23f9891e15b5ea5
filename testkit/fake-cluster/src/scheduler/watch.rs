//! Keeps the cache and the queue in step with the API server's pods and nodes, and says what was worth a retry.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::Shared;
use super::cache::Cache;
use super::feed::{Change, Feed};
use super::queue::{Queue, Wake};

/// Watches pods and nodes until the task is dropped. Scheduling starts once both have been listed.
pub(super) async fn run(shared: Arc<Shared>) {
    let pods: Api<Pod> = Api::all(shared.client.clone());
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let mut pods = watcher(pods, watcher::Config::default()).default_backoff().boxed();
    let mut nodes = watcher(nodes, watcher::Config::default()).default_backoff().boxed();
    let mut pod_feed = Feed::new();
    let mut node_feed = Feed::new();
    loop {
        tokio::select! {
            Some(event) = pods.next() => match event {
                Ok(event) => for change in pod_feed.take(event) {
                    let now = shared.clock.now();
                    shared.with_state(|state| {
                        pod_changed(&mut state.queue, &mut state.cache, &change, &shared.config.name, now);
                    });
                },
                Err(error) => tracing::debug!(%error, "the watch of pods broke; it starts again"),
            },
            Some(event) = nodes.next() => match event {
                Ok(event) => for change in node_feed.take(event) {
                    let now = shared.clock.now();
                    shared.with_state(|state| node_changed(&mut state.queue, &mut state.cache, &change, now));
                },
                Err(error) => tracing::debug!(%error, "the watch of nodes broke; it starts again"),
            },
            else => return,
        }
        if pod_feed.is_synced() && node_feed.is_synced() {
            shared.synced.send_replace(true);
        }
        shared.changed.notify_one();
    }
}

fn pod_changed(queue: &mut Queue, cache: &mut Cache, change: &Change<Pod>, scheduler: &str, now: Timestamp) {
    let Some(uid) = change.new.as_ref().or(change.old.as_ref()).and_then(|pod| pod.uid()) else { return };
    let live = change.new.as_ref().filter(|pod| !is_terminal(pod));
    let node = live.and_then(|pod| pod.spec.as_ref()?.node_name.as_deref()).filter(|node| !node.is_empty());
    match (live, node) {
        (Some(pod), Some(node)) => {
            queue.remove(&uid);
            cache.set_pod(&uid, pod, node);
        }
        (Some(pod), None) if is_ours(pod, scheduler) => {
            // A pod assumed onto a node is past the queue; only its failed bind brings it back.
            let matters = change.old.as_ref().is_none_or(|old| differs_beyond_status(old, pod));
            queue.update(&uid, pod.clone(), matters, now);
        }
        _ => {
            queue.remove(&uid);
            if cache.remove_pod(&uid) {
                queue.wake(Wake::PodGone, now);
            }
        }
    }
}

fn node_changed(queue: &mut Queue, cache: &mut Cache, change: &Change<Node>, now: Timestamp) {
    let Some(node) = change.new.clone() else {
        if let Some(old) = &change.old {
            cache.remove_node(&old.name_any());
        }
        return;
    };
    cache.set_node(&node.name_any(), node.clone());
    match &change.old {
        None => queue.wake(Wake::NodeAdded, now),
        Some(old) => node_wakes(old, &node).into_iter().for_each(|wake| queue.wake(wake, now)),
    }
}

fn node_wakes(old: &Node, new: &Node) -> Vec<Wake> {
    let spec = |node: &Node| node.spec.clone().unwrap_or_default();
    let marks = |node: &Node| (spec(node).taints, spec(node).unschedulable.unwrap_or(false));
    let allocatable = |node: &Node| node.status.clone().unwrap_or_default().allocatable;
    // Heartbeats change only times, which help nobody.
    let conditions = |node: &Node| -> BTreeMap<String, String> {
        let conditions = node.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        conditions.into_iter().map(|condition| (condition.type_, condition.status)).collect()
    };
    let other = old.annotations() != new.annotations() || conditions(old) != conditions(new);
    [
        (allocatable(old) != allocatable(new), Wake::NodeAllocatable),
        (old.labels() != new.labels(), Wake::NodeLabels),
        (marks(old) != marks(new), Wake::NodeTaints),
        (other, Wake::NodeOther),
    ]
    .into_iter()
    .filter_map(|(changed, wake)| changed.then_some(wake))
    .collect()
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Pods of another scheduler and pods with scheduling gates are not queued.
fn is_ours(pod: &Pod, scheduler: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    spec.scheduler_name.as_deref() == Some(scheduler) && !gated
}

fn differs_beyond_status(old: &Pod, new: &Pod) -> bool {
    old.spec != new.spec
        || old.labels() != new.labels()
        || old.annotations() != new.annotations()
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.metadata.finalizers != new.metadata.finalizers
        || old.metadata.owner_references != new.metadata.owner_references
}
