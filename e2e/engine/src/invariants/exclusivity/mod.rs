//! Exclusivity: no core is held by two pods at one time, neither when all is over (`held_twice`) nor at any time before
//! ([`History`]). Part of [`super::violations`].

mod history;

use std::collections::BTreeMap;

pub use history::History;
use neuron_core::ids::CoreSet;

use super::hardware::{Hardware, held_by};
use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// Cores that two running pods see, under either name.
pub(super) fn held_twice(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    let mut holders: BTreeMap<&str, Vec<(&str, CoreSet)>> = BTreeMap::new();
    for (name, pod) in outcome.pods.iter().filter(|(_, pod)| pod.is_running()) {
        let Some(node) = pod.node.as_deref() else { continue };
        let Some(hardware) = Hardware::of(scenario, node) else { continue };
        let cores = held_by(pod, hardware);
        let others = holders.entry(node).or_default();
        for (other, held) in others.iter().filter(|(_, held)| held.intersects(cores)) {
            let both = held.intersection(cores);
            failures.push(format!("pods {other} and {name} both hold cores {both} of {node}"));
        }
        others.push((name, cores));
    }
    failures
}
