//! What a pod's containers do next, from its spec and their runs alone. Called by `worker`.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::containers::{Run, Runs};
use crate::amounts::is_sidecar;

/// A pod's phase as the kubelet reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

/// The next step of a pod.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) phase: Phase,
    /// Containers to start now.
    pub(crate) start: Vec<String>,
    /// Containers that have ended and start again later.
    pub(crate) backing_off: BTreeSet<String>,
    /// Containers that wait because they could not be given their devices.
    pub(crate) without_devices: BTreeSet<String>,
    /// When to ask again, if nothing else happens.
    pub(crate) wake: Option<Timestamp>,
    /// Whether every init container has succeeded or, a sidecar, started.
    pub(crate) initialized: bool,
}

/// What one container needs next.
enum Need {
    Start,
    Running,
    BackOff(Timestamp),
    Ended { exit_code: i32 },
}

impl Phase {
    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The next step at `now`. Init containers run one after another, sidecars stay, then all apps run together.
pub(crate) fn plan(pod: &Pod, runs: &Runs, now: Timestamp) -> Plan {
    let phase = Phase::Pending;
    let mut plan = Plan {
        phase,
        start: Vec::new(),
        backing_off: BTreeSet::new(),
        without_devices: BTreeSet::new(),
        wake: None,
        initialized: false,
    };
    let Some(spec) = &pod.spec else { return plan };
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");

    for container in spec.init_containers.iter().flatten() {
        let sidecar = is_sidecar(container);
        // An init container that succeeded does not run again, even with policy Always.
        let init_policy = if policy == "Always" { "OnFailure" } else { policy };
        match need(container, runs, if sidecar { "Always" } else { init_policy }, now, &mut plan) {
            Need::Running | Need::BackOff(_) if sidecar => {}
            Need::Ended { exit_code: 0 } => {}
            Need::Ended { .. } => {
                plan.phase = Phase::Failed;
                return plan;
            }
            // The next one waits for this one; a sidecar only has to be started.
            Need::Start | Need::Running | Need::BackOff(_) => return plan,
        }
    }

    plan.initialized = true;
    let needs: Vec<Need> =
        spec.containers.iter().map(|container| need(container, runs, policy, now, &mut plan)).collect();
    let all_ended = needs.iter().all(|need| matches!(need, Need::Ended { .. }));
    let any_failed = needs.iter().any(|need| matches!(need, Need::Ended { exit_code } if *exit_code != 0));
    let any_run = spec.containers.iter().any(|container| runs.contains_key(&container.name));
    plan.phase = match (all_ended, any_failed) {
        (true, true) => Phase::Failed,
        (true, false) => Phase::Succeeded,
        (false, _) if any_run => Phase::Running,
        (false, _) => Phase::Pending,
    };
    plan
}

/// What `container` needs under `policy`, entered into `plan`.
fn need(container: &Container, runs: &Runs, policy: &str, now: Timestamp, plan: &mut Plan) -> Need {
    let need = match runs.get(&container.name) {
        None => Need::Start,
        Some(run) if !run.has_ended(now) => {
            plan.wake = earlier(plan.wake, run.ends);
            Need::Running
        }
        Some(Run { ends: Some(ended), exit_code, restarts, .. })
            if policy == "Always" || (policy == "OnFailure" && *exit_code != 0) =>
        {
            let again = ended.checked_add(back_off(*restarts)).unwrap_or(Timestamp::MAX);
            if again <= now { Need::Start } else { Need::BackOff(again) }
        }
        Some(run) => Need::Ended { exit_code: run.exit_code },
    };
    match &need {
        Need::Start => plan.start.push(container.name.clone()),
        Need::BackOff(again) => {
            plan.wake = earlier(plan.wake, Some(*again));
            plan.backing_off.insert(container.name.clone());
        }
        Need::Running | Need::Ended { .. } => {}
    }
    need
}

/// Kubelet restarts at once, then after 10 s, 20 s and so on, at most 5 minutes.
fn back_off(restarts: u32) -> Duration {
    match restarts {
        0 => Duration::ZERO,
        again => Duration::from_secs((10 << (again - 1).min(5)).min(300)),
    }
}

fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}
