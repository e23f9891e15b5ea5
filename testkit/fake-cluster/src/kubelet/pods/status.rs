//! A pod's status as the kubelet writes it. Called by `worker`.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceStatus};
use serde_json::{Value, json};

use super::admission::Rejection;
use super::containers::{Run, Runs};
use super::lifecycle::{Phase, Plan};
use crate::amounts::is_sidecar;
use crate::clock::rfc3339;

/// What the status of each app container says of its devices, by the container's name; empty in versions that say nothing.
pub(crate) type DeviceStatuses = BTreeMap<String, Vec<ResourceStatus>>;

/// The status of a pod that may not run (kubelet's `rejectPod`).
pub(crate) fn rejected(rejection: &Rejection) -> Value {
    json!({
        "phase": "Failed",
        "reason": rejection.reason,
        "message": format!("Pod was rejected: {}", rejection.message),
    })
}

/// The status of an admitted pod at `now`.
pub(crate) fn admitted(
    pod: &Pod,
    plan: &Plan,
    runs: &Runs,
    devices: &DeviceStatuses,
    now: Timestamp,
) -> Value {
    let Some(spec) = &pod.spec else { return json!({}) };
    let running = |container: &Container| runs.get(&container.name).is_some_and(|run| !run.has_ended(now));
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let ready = plan.phase == Phase::Running && spec.containers.iter().chain(sidecars).all(running);
    let statuses = |containers: &[Container], is_init: bool| -> Vec<Value> {
        let status = |container: &Container| {
            let mut status = container_status(container, is_init, plan, runs, now);
            if let Some(run) = runs.get(&container.name) {
                status["containerID"] = json!(container_id(pod, &container.name, run));
            }
            with_devices(status, devices, &container.name)
        };
        containers.iter().map(status).collect()
    };
    let reason = match plan.phase {
        Phase::Succeeded => Some("PodCompleted"),
        Phase::Failed => Some("PodFailed"),
        Phase::Pending | Phase::Running if ready => None,
        Phase::Pending | Phase::Running => Some("ContainersNotReady"),
    };
    json!({
        "phase": format!("{:?}", plan.phase),
        "conditions": [
            condition("Initialized", plan.initialized, None, now),
            condition("Ready", ready, reason, now),
            condition("ContainersReady", ready, reason, now),
        ],
        "initContainerStatuses": statuses(spec.init_containers.as_deref().unwrap_or_default(), true),
        "containerStatuses": statuses(&spec.containers, false),
    })
}

fn condition(kind: &str, holds: bool, reason: Option<&str>, now: Timestamp) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({ "type": kind, "status": status, "reason": reason, "lastTransitionTime": rfc3339(now) })
}

fn container_status(container: &Container, is_init: bool, plan: &Plan, runs: &Runs, now: Timestamp) -> Value {
    let run = runs.get(&container.name);
    let backing_off = plan.backing_off.contains(&container.name);
    let running = run.is_some_and(|run| !run.has_ended(now));
    let succeeded = run.is_some_and(|run| run.has_ended(now) && run.exit_code == 0);
    let waiting = |reason: &str| json!({ "waiting": { "reason": reason } });
    let (state, last_state) = match run {
        run if plan.without_devices.contains(&container.name) => {
            (waiting("CreateContainerConfigError"), run.map_or_else(|| json!({}), terminated))
        }
        Some(run) if backing_off => (waiting("CrashLoopBackOff"), terminated(run)),
        Some(run) if run.has_ended(now) => (terminated(run), json!({})),
        Some(run) => (json!({ "running": { "startedAt": rfc3339(run.started) } }), json!({})),
        None if plan.initialized => (waiting("ContainerCreating"), json!({})),
        None => (waiting("PodInitializing"), json!({})),
    };
    json!({
        "name": container.name,
        "image": container.image.as_deref().unwrap_or_default(),
        "imageID": "",
        "ready": running && (!is_init || is_sidecar(container)) || is_init && succeeded,
        "started": running,
        "restartCount": run.map_or(0, |run| run.restarts),
        "state": state,
        "lastState": last_state,
    })
}

/// Another one for each run, in containerd's form.
fn container_id(pod: &Pod, container: &str, run: &Run) -> String {
    let mut hasher = DefaultHasher::new();
    (&pod.metadata.uid, container, run.restarts, run.started.as_nanosecond()).hash(&mut hasher);
    format!("containerd://{:064x}", hasher.finish())
}

fn with_devices(mut status: Value, devices: &DeviceStatuses, container: &str) -> Value {
    if let Some(devices) = devices.get(container) {
        status["allocatedResourcesStatus"] = json!(devices);
    }
    status
}

fn terminated(run: &Run) -> Value {
    json!({ "terminated": {
        "exitCode": run.exit_code,
        "reason": if run.exit_code == 0 { "Completed" } else { "Error" },
        "startedAt": rfc3339(run.started),
        "finishedAt": run.ends.map(rfc3339),
    }})
}
