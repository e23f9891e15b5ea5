//! No lost pod: after a scenario of the fault tier, whatever broke meanwhile, no pod is missing, none waits, and none has
//! failed that kubelet would not fail of itself. Part of [`super::violations`].

use std::collections::BTreeSet;

use serde_json::Value;

use super::no_lost_device::Probe;
use crate::outcome::Outcome;
use crate::scenario::{Scenario, Step};

/// Pods that are missing, still wait, or failed with words that neither the scenario nor kubelet accounts for. The probes
/// are left out: whether they run is told of the devices that they ask for.
pub(super) fn lost(scenario: &Scenario, outcome: &Outcome, probes: &[Probe]) -> Vec<String> {
    let applied: BTreeSet<&str> = scenario.manifests().filter_map(name_of).collect();
    let deleted: BTreeSet<&str> = scenario.force_deleted().collect();
    let missing = applied.difference(&deleted).filter(|name| !outcome.pods.contains_key(**name));
    let mut failures: Vec<String> = missing.map(|name| format!("pod {name} is lost")).collect();
    let created_last = created_after_faults(scenario);
    let is_expected = |name: &String| scenario.expect.contains_key(name);
    let is_probe = |name: &String| probes.iter().any(|probe| probe.pod == *name);
    for (name, pod) in outcome.pods.iter().filter(|(name, _)| !is_expected(name) && !is_probe(name)) {
        let why = pod.refusal_text().unwrap_or_default();
        let is_kubelets_own = scenario.kubelet_may_say.iter().any(|words| why.contains(words.as_str()));
        match pod.phase.as_str() {
            "Running" | "Succeeded" | "Refused" => {}
            "Failed" if is_kubelets_own && !created_last.contains(name.as_str()) => {}
            phase => failures.push(format!("pod {name} is {phase}: {why}")),
        }
    }
    failures
}

/// The names of pods that were created once the parts they met were back: nothing excuses these.
fn created_after_faults(scenario: &Scenario) -> BTreeSet<&str> {
    let last = scenario.steps.iter().filter_map(|step| match step {
        Step::During(during) => Some(during.groups()[2]),
        _ => None,
    });
    last.flatten().filter_map(name_of).collect()
}

fn name_of(manifest: &Value) -> Option<&str> {
    manifest["metadata"]["name"].as_str()
}
