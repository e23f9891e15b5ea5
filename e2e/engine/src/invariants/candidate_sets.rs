//! Candidate sets: every set that a running container got is one that its node's type allows for as many. Part of
//! [`super::violations`].

use super::hardware::{Hardware, visible};
use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// Sets that are no candidate sets of their node's type.
pub(super) fn not_allowed(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, pod) in outcome.pods.iter().filter(|(_, pod)| pod.is_running()) {
        let Some(hardware) = pod.node.as_deref().and_then(|node| Hardware::of(scenario, node)) else {
            continue;
        };
        for (container, report) in &pod.containers {
            // What cannot be read does not match its record either, which is where it is reported.
            let Ok((cores, devices)) = visible(report) else { continue };
            let mut report = |what: &str| {
                failures.push(format!(
                    "pod {name}: container {container} got {what}, which are no candidate set"
                ));
            };
            if !devices.is_empty() && !hardware.is_device_set(devices) {
                report(&format!("devices {devices}"));
            }
            if !cores.is_empty() && !hardware.is_core_set(cores) {
                report(&format!("cores {cores}"));
            }
        }
    }
    failures
}
