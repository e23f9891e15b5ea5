//! Keeps the cache and the queue in step with the API server's pods and nodes, and tells the queue of cluster events.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};

use super::cache::Cache;
use super::cluster_event::ClusterEvent;
use super::known_objects::{Change, KnownObjects};
use super::queue::Queue;
use super::shared::{Shared, State};
use crate::reflector::reflect;

/// Watches pods and nodes until the task is dropped. Scheduling starts once both have been listed.
pub(crate) async fn run(shared: Arc<Shared>) {
    let pods: Api<Pod> = Api::all(shared.client.clone());
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let mut pods = reflect(&shared.system, pods, watcher::Config::default()).boxed();
    let mut nodes = reflect(&shared.system, nodes, watcher::Config::default()).boxed();
    let mut known_pods = KnownObjects::new();
    let mut known_nodes = KnownObjects::new();
    loop {
        // The order does not matter: the cache may know a pod before its node.
        tokio::select! {
            biased;
            Some(event) = pods.next() => match event {
                Ok(event) => for change in known_pods.apply(event) {
                    let now = shared.clock.now();
                    shared.with_state(|state| {
                        pod_changed(state, &change, &shared.config.name, now);
                    });
                    if let Change { old: Some(pod), new: None } = change {
                        shared.forget_reports(pod.uid().unwrap_or_default());
                    }
                },
                Err(error) => tracing::debug!(%error, "the watch of pods failed; it starts again"),
            },
            Some(event) = nodes.next() => match event {
                Ok(event) => for change in known_nodes.apply(event) {
                    let now = shared.clock.now();
                    shared.with_state(|state| node_changed(&mut state.queue, &mut state.cache, &change, now));
                },
                Err(error) => tracing::debug!(%error, "the watch of nodes failed; it starts again"),
            },
            else => return,
        }
        if known_pods.is_synced() && known_nodes.is_synced() {
            shared.synced.send_replace(true);
        }
        shared.changed.notify_one();
    }
}

fn pod_changed(state: &mut State, change: &Change<Pod>, scheduler: &str, now: Timestamp) {
    let State { queue, cache, nominations } = state;
    let Some(uid) = change.new.as_ref().or(change.old.as_ref()).and_then(|pod| pod.uid()) else { return };
    let live = change.new.as_ref().filter(|pod| !is_terminal(pod));
    let node = live.and_then(|pod| pod.spec.as_ref()?.node_name.as_deref()).filter(|node| !node.is_empty());
    match (live, node) {
        (Some(pod), Some(node)) => {
            queue.remove(&uid);
            nominations.remove(&uid);
            cache.set_pod(&uid, pod, node);
        }
        (Some(pod), None) if is_schedulable(pod, scheduler) => {
            let matters = change.old.as_ref().is_none_or(|old| differs_beyond_status(old, pod));
            match (change.old.as_deref().and_then(nominated_to), nominated_to(pod)) {
                // A restarted scheduler finds them there. What is assumed on a node counts there.
                (_, Some(node)) if !cache.is_assumed(&uid) => nominations.set(pod, node),
                (Some(_), None) if nominations.remove(&uid) => queue.observe(ClusterEvent::PodGone, now),
                _ => {}
            }
            queue.update(&uid, pod.clone(), matters, now);
        }
        _ => {
            queue.remove(&uid);
            nominations.remove(&uid);
            if cache.remove_pod(&uid) {
                queue.observe(ClusterEvent::PodGone, now);
            }
        }
    }
}

fn nominated_to(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref()
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
        None => queue.observe(ClusterEvent::NodeAdded, now),
        Some(old) => node_events(old, &node).into_iter().for_each(|event| queue.observe(event, now)),
    }
}

fn node_events(old: &Node, new: &Node) -> Vec<ClusterEvent> {
    let spec = |node: &Node| node.spec.clone().unwrap_or_default();
    let taints = |node: &Node| (spec(node).taints, spec(node).unschedulable.unwrap_or(false));
    let allocatable = |node: &Node| node.status.clone().unwrap_or_default().allocatable;
    // Heartbeats change only times, which help no pod.
    let conditions = |node: &Node| -> BTreeMap<String, String> {
        let conditions = node.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        conditions.into_iter().map(|condition| (condition.type_, condition.status)).collect()
    };
    let other = old.annotations() != new.annotations() || conditions(old) != conditions(new);
    [
        (allocatable(old) != allocatable(new), ClusterEvent::NodeAllocatable),
        (old.labels() != new.labels(), ClusterEvent::NodeLabels),
        (taints(old) != taints(new), ClusterEvent::NodeTaints),
        (other, ClusterEvent::NodeOther),
    ]
    .into_iter()
    .filter_map(|(changed, event)| changed.then_some(event))
    .collect()
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether the pod is queued: not those of another scheduler, nor those with scheduling gates.
fn is_schedulable(pod: &Pod, scheduler: &str) -> bool {
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
