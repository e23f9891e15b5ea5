//! Requested counts: every running container has as many devices and cores as its manifest asks for. Part of
//! [`super::violations`].

use std::collections::{BTreeMap, BTreeSet};

use neuron_core::pod::PodSpec;
use neuron_core::record::{Allocation, Containers, Recorded};
use neuron_core::request::PodRequest;
use neuron_workload::Report;
use serde::Deserialize as _;
use serde_json::Value;

use super::hardware::visible;
use crate::outcome::{Outcome, PodOutcome};
use crate::scenario::Scenario;

/// Containers that have another number than they ask for.
pub(super) fn not_met(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let name = |manifest: &Value| manifest["metadata"]["name"].as_str().map(str::to_owned);
    // The last of several pods of one name counts.
    let specs: BTreeMap<String, &Value> =
        scenario.manifests().filter_map(|manifest| Some((name(manifest)?, &manifest["spec"]))).collect();
    let running = outcome.pods.iter().filter(|(_, pod)| pod.is_running());
    let applied = running.filter_map(|(name, pod)| Some((name, pod, specs.get(name)?)));
    applied.flat_map(|(name, pod, spec)| not_met_by(name, pod, spec)).collect()
}

fn not_met_by(name: &str, pod: &PodOutcome, spec: &Value) -> Vec<String> {
    let request = PodSpec::deserialize(spec).ok().and_then(|spec| PodRequest::of(&spec).ok());
    let Some(request) = request else {
        return vec![format!("pod {name}: runs, though its request cannot be read")];
    };
    let requested = request.containers.iter().map(|one| (&*one.name, (one.devices, one.cores)));
    let requested: BTreeMap<&str, (u32, u32)> = requested.collect();
    let recorded = match Allocation::parse(&pod.annotations) {
        Ok(Some(Recorded::Ours(allocation))) => allocation.containers.clone(),
        _ => Containers::default(),
    };
    let containers: BTreeSet<&str> =
        requested.keys().copied().chain(pod.containers.keys().map(String::as_str)).collect();
    let mut failures = Vec::new();
    for container in containers {
        let asks = requested.get(container).copied().unwrap_or_default();
        let has = match pod.containers.get(container) {
            Some(report) => counts(report),
            // A container that printed nothing is reported as a record mismatch.
            None => Some(recorded.get(container).map_or((0, 0), |one| (one.devices.len(), one.cores.len()))),
        };
        for (noun, asks, has) in
            has.into_iter().flat_map(|has| [("device", asks.0, has.0), ("core", asks.1, has.1)])
        {
            if asks != has {
                failures
                    .push(format!("pod {name}: container {container} asks for {asks} {noun}s and has {has}"));
            }
        }
    }
    failures
}

/// How many devices and logical cores a container sees; none where its variables cannot be read.
fn counts(report: &Report) -> Option<(u32, u32)> {
    visible(report).ok().map(|(cores, devices)| (devices.len(), cores.len()))
}
