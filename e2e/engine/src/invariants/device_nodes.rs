//! Device nodes: every running container sees `/dev/neuronN` of each device of its set, and of no other. Part of
//! [`super::violations`].

use super::hardware::{Hardware, visible};
use crate::outcome::Outcome;
use crate::scenario::{ExpectedSets, Scenario};

/// Containers whose device nodes are not those of their sets.
pub(super) fn mismatches(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, pod) in outcome.pods.iter().filter(|(_, pod)| pod.is_running()) {
        let Some(hardware) = pod.node.as_deref().and_then(|node| Hardware::of(scenario, node)) else {
            continue;
        };
        for (container, report) in &pod.containers {
            let Ok((cores, devices)) = visible(report) else { continue };
            let seen = ExpectedSets::of(report).nodes.unwrap_or_default();
            let of_set = devices.union(hardware.devices_of(cores)).to_string();
            if seen != of_set {
                failures.push(format!(
                    "pod {name}: container {container} sees device nodes {seen}, not {of_set}"
                ));
            }
        }
    }
    failures
}
