//! The scheduling loop: one pod at a time goes through a cycle and is then bound in the background, while the next pod is
//! already being scheduled.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use runtime::reached;

use super::bind;
use super::choose_node::cycle::{Cycle, CycleError};
use super::cluster_event::ClusterEvent;
use super::preempt::{preempt, unnominate};
use super::report::Report;
use super::shared::Shared;

/// Schedules pods until the task is dropped. Waits for the first lists of pods and nodes.
pub(crate) async fn run(shared: Arc<Shared>) {
    if shared.synced.subscribe().wait_for(|synced| *synced).await.is_err() {
        return;
    }
    let mut start = 0;
    loop {
        let now = shared.clock.now();
        match shared.with_state(|state| state.queue.pop(now)) {
            Some((uid, pod)) => start = schedule(&shared, uid, pod, start).await,
            None => wait(&shared).await,
        }
    }
}

/// Waits until something has changed or the clock has reached the queue's next deadline.
async fn wait(shared: &Shared) {
    let deadline = shared.with_state(|state| state.queue.next_deadline());
    let Some(deadline) = deadline else { return shared.changed.notified().await };
    // Either way the queue is looked at again.
    tokio::select! {
        biased;
        () = shared.changed.notified() => {}
        () = shared.clock.sleep_until(deadline) => {}
    }
}

/// Schedules one pod, searching from the `start`th node on. Gives the node where the next search starts.
async fn schedule(shared: &Arc<Shared>, uid: String, pod: Arc<Pod>, start: usize) -> usize {
    if pod.metadata.deletion_timestamp.is_some() {
        shared.with_state(|state| state.queue.remove(&uid));
        shared.report(Report::skipped(pod, shared.clock.now()));
        return start;
    }
    // An update that arrives while the pod is being assumed queues it again.
    if shared.with_state(|state| state.cache.is_assumed(&uid)) {
        shared.with_state(|state| state.queue.remove(&uid));
        return start;
    }
    let nodes = shared.with_state(|state| state.cache.snapshot());
    let count = nodes.len().max(1);
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let cycle = Cycle {
        extenders: &shared.extenders,
        ignored_resources: &shared.ignored_resources,
        kept: shared.with_state(|state| state.nominations.before(&pod)),
        seed: shared.config.seed,
    };
    let (looked_at, outcome) = cycle.run(&pod, &name, nodes.clone(), start).await;
    match outcome {
        Ok(node) => {
            // The pod may have been deleted meanwhile: its binding then fails, as in kube-scheduler.
            shared.with_state(|state| {
                state.cache.assume(&uid, &pod, &node);
                state.nominations.remove(&uid);
            });
            let task = bind_assumed(shared.clone(), uid, pod, node);
            shared.spawn(task);
        }
        Err(CycleError::Unschedulable(diagnosis)) => {
            let preempted = preempt(shared, &pod, &nodes, &diagnosis, &cycle.kept).await;
            let message = diagnosis.message(&preempted, shared.behaviour);
            let now = shared.clock.now();
            shared.with_state(|state| state.queue.refused(&uid, diagnosis.refused_by(), now));
            shared.report(Report::unschedulable(pod, message, now));
        }
        Err(error @ CycleError::NoNodes) => {
            unnominate(shared, &pod).await;
            let now = shared.clock.now();
            shared.with_state(|state| state.queue.refused(&uid, Vec::new(), now));
            shared.report(Report::unschedulable(pod, error.to_string(), now));
        }
        Err(error @ CycleError::Extender(_)) => {
            reached("cluster: an extender's filter failed");
            unnominate(shared, &pod).await;
            fail(shared, &uid, pod, error.to_string());
        }
    }
    (start + looked_at) % count
}

async fn bind_assumed(shared: Arc<Shared>, uid: String, pod: Arc<Pod>, node: String) {
    match bind::bind(&shared.client, &shared.extenders, &pod, &node).await {
        Ok(()) => {
            shared.with_state(|state| state.queue.remove(&uid));
            shared.report(Report::scheduled(pod, &node, shared.clock.now()));
        }
        Err(error) => {
            reached("cluster: a bind failed");
            let now = shared.clock.now();
            shared.with_state(|state| {
                state.cache.forget(&uid);
                state.queue.observe(ClusterEvent::PodGone, now);
            });
            unnominate(&shared, &pod).await;
            fail(&shared, &uid, pod, error.to_string());
        }
    }
}

/// Puts the pod back into the queue with back-off, unless it is gone, or bound because only the answer of its bind was lost.
fn fail(shared: &Shared, uid: &str, pod: Arc<Pod>, message: String) {
    let now = shared.clock.now();
    shared.with_state(|state| {
        if state.cache.is_bound(uid) {
            reached("cluster: of a bind only the answer was lost");
            state.queue.remove(uid);
        } else if state.queue.contains(uid) {
            state.queue.failed(uid, now);
        }
    });
    shared.report(Report::error(pod, message, now));
    shared.changed.notify_one();
}
