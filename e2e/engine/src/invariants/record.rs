//! Record matches reality: every running pod's record says what its containers really got. Part of [`super::violations`];
//! a run also waits for it where kubelet chose otherwise and the plugin corrects the record.

use neuron_core::names;
use neuron_core::record::{Allocation, Containers, Recorded};

use super::hardware::visible;
use crate::outcome::{Outcome, PodOutcome};
use crate::scenario::ExpectedSets;

/// What the records of running pods say otherwise than their containers.
pub(super) fn mismatches(outcome: &Outcome) -> Vec<String> {
    let running = outcome.pods.iter().filter(|(_, pod)| pod.is_running());
    running.flat_map(|(name, pod)| mismatches_of(name, pod)).collect()
}

/// What one pod's record says otherwise than its containers; empty once plugin and record agree.
pub fn mismatches_of(name: &str, pod: &PodOutcome) -> Vec<String> {
    let mut failures = Vec::new();
    let recorded = match Allocation::parse(&pod.annotations) {
        Ok(Some(Recorded::Ours(allocation))) => {
            if pod.node.as_deref() != Some(&*allocation.node) {
                let runs_on = pod.node.as_deref().unwrap_or("no node");
                failures.push(format!("pod {name}: runs on {runs_on}, its record says {}", allocation.node));
            }
            allocation.containers.clone()
        }
        Ok(_) => Containers::default(),
        Err(error) => return vec![format!("pod {name}: {error}")],
    };
    if pod.annotations.get(names::NEURON_ALLOCATED).is_some_and(|text| text == "false") {
        failures.push(format!("pod {name}: {} is still false", names::NEURON_ALLOCATED));
    }
    for (container, record) in &recorded {
        match pod.containers.get(&**container).map(visible) {
            None => failures.push(format!("pod {name}: container {container} printed nothing")),
            Some(Err(error)) => failures.push(format!("pod {name}: container {container}: {error}")),
            Some(Ok(has)) if has != (record.cores, record.devices) => failures.push(format!(
                "pod {name}: container {container} has cores {{{}}} and devices {{{}}}, its record says {{{}}} and {{{}}}",
                has.0, has.1, record.cores, record.devices
            )),
            Some(Ok(_)) => {}
        }
    }
    let unrecorded =
        pod.containers.iter().filter(|(container, _)| !recorded.contains_key(container.as_str()));
    for (container, report) in unrecorded {
        let got = ExpectedSets::of(report);
        if got != ExpectedSets::default() {
            failures.push(format!("pod {name}: container {container} got {got} without a record"));
        }
    }
    failures
}
