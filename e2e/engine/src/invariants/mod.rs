//! What of an outcome should not be: expectations that the scenario names, and invariants that hold for every scenario.

mod after_faults;
pub mod exclusivity;
mod requested_count;

use std::collections::BTreeMap;

use neuron_core::catalog::Catalog;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::{self, Resource};
use neuron_core::record::{Allocation, Recorded};
use neuron_core::topology::{Policy, Topology};

use self::requested_count::not_as_asked;
use crate::outcome::{Outcome, PodOutcome, SchedulerTexts};
use crate::scenario::{Expected, ExpectedSets, Scenario, Tier};
use neuron_workload::Report;

/// Everything that is wrong with the outcome, one sentence each; empty if the scenario passed.
pub fn failures(scenario: &Scenario, outcome: &Outcome, texts: SchedulerTexts) -> Vec<String> {
    let mut failures = unmet(scenario, outcome, texts);
    failures.extend(records_unlike_reality(outcome));
    failures.extend(held_twice(scenario, outcome));
    failures.extend(not_as_asked(scenario, outcome));
    failures.extend(sets_not_allowed(scenario, outcome));
    if scenario.tier == Tier::Faults {
        failures.extend(after_faults::broken(scenario, outcome));
    }
    failures
}

/// Expectations of the scenario that the outcome does not meet.
fn unmet(scenario: &Scenario, outcome: &Outcome, texts: SchedulerTexts) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, expected) in &scenario.expect {
        match outcome.pods.get(name) {
            None => failures.push(format!("pod {name} is not there")),
            Some(pod) => {
                let unmet = unmet_of(pod, expected, texts);
                failures.extend(unmet.into_iter().map(|text| format!("pod {name}: {text}")))
            }
        }
    }
    for group in &scenario.interchangeable {
        let gone: Vec<&String> = group.iter().filter(|name| !outcome.pods.contains_key(*name)).collect();
        failures.extend(gone.into_iter().map(|name| format!("pod {name} is not there")));
    }
    failures
}

fn unmet_of(pod: &PodOutcome, expected: &Expected, texts: SchedulerTexts) -> Vec<String> {
    let mut failures = Vec::new();
    if let Some(phase) = &expected.phase
        && *phase != pod.phase
    {
        let why = pod
            .failure
            .as_ref()
            .or(pod.failed_scheduling.as_ref())
            .map_or(String::new(), |why| format!(": {why}"));
        failures.push(format!("is {}, not {phase}{why}", pod.phase));
    }
    if let Some(node) = &expected.node
        && pod.node.as_ref() != Some(node)
    {
        failures.push(format!("is on {}, not on {node}", pod.node.as_deref().unwrap_or("no node")));
    }
    for (container, sets) in &expected.got {
        match pod.containers.get(container) {
            None => failures.push(format!("container {container} printed nothing")),
            Some(report) if got(report) != *sets => {
                failures.push(format!(
                    "container {container} got {}, not {}",
                    said(&got(report)),
                    said(sets)
                ));
            }
            Some(_) => {}
        }
    }
    if let Some(text) = &expected.refusal {
        let has = |said: &Option<String>| said.as_ref().is_some_and(|said| said.contains(text.as_str()));
        // Of another Kubernetes only kube-scheduler's own words are excused; what the extender said it repeats.
        let is_theirs = ["Insufficient ", "nodes are available"].iter().any(|words| text.contains(words));
        let excused = texts == SchedulerTexts::LeftOut && is_theirs && pod.failed_scheduling.is_some();
        if !excused && !has(&pod.failed_scheduling) && !has(&pod.failure) {
            let had = pod.failed_scheduling.as_ref().or(pod.failure.as_ref());
            failures.push(format!("was not refused with {text:?} but {had:?}"));
        }
    }
    if let Some(text) = &expected.event
        && !pod.events.iter().any(|event| event.contains(text.as_str()))
    {
        failures.push(format!("has no event with {text:?} but {:?}", pod.events));
    }
    failures
}

/// What a container got, in the words of an expectation.
fn got(report: &Report) -> ExpectedSets {
    let numbers: Vec<&str> =
        report.devices.iter().filter_map(|path| path.strip_prefix("/dev/neuron")).collect();
    ExpectedSets {
        cores: report.env.get(names::VISIBLE_CORES).cloned(),
        devices: report.env.get(names::VISIBLE_DEVICES).cloned(),
        nodes: (!numbers.is_empty()).then(|| numbers.join(",")),
    }
}

fn said(sets: &ExpectedSets) -> String {
    let part = |name: &str, text: &Option<String>| text.as_ref().map(|text| format!("{name} {text}"));
    let parts =
        [part("cores", &sets.cores), part("devices", &sets.devices), part("device nodes", &sets.nodes)]
            .into_iter()
            .flatten();
    let text = parts.collect::<Vec<_>>().join("; ");
    if text.is_empty() { "nothing".into() } else { text }
}

/// The cores and devices that a container sees; `None` if it sees none.
fn visible(report: &Report) -> Result<(CoreSet, DeviceSet), String> {
    let read = |name: &str| report.env.get(name).map_or("", String::as_str);
    let cores =
        read(names::VISIBLE_CORES).parse().map_err(|error| format!("{}: {error}", names::VISIBLE_CORES))?;
    let devices = read(names::VISIBLE_DEVICES)
        .parse()
        .map_err(|error| format!("{}: {error}", names::VISIBLE_DEVICES))?;
    Ok((cores, devices))
}

/// Every running pod's record says what its containers really got.
fn records_unlike_reality(outcome: &Outcome) -> Vec<String> {
    let running = outcome.pods.iter().filter(|(_, pod)| pod.is_running());
    running.flat_map(|(name, pod)| record_unlike_reality(name, pod)).collect()
}

/// What one pod's record says otherwise than its containers; empty once plugin and record agree.
pub fn record_unlike_reality(name: &str, pod: &PodOutcome) -> Vec<String> {
    let recorded = match Allocation::parse(&pod.annotations) {
        Ok(Some(Recorded::Ours(allocation))) => allocation.containers,
        Ok(_) => BTreeMap::new(),
        Err(error) => return vec![format!("pod {name}: {error}")],
    };
    let mut failures = Vec::new();
    if pod.annotations.get(names::NEURON_ALLOCATED).is_some_and(|text| text == "false") {
        failures.push(format!("pod {name}: {} is still false", names::NEURON_ALLOCATED));
    }
    for (container, record) in &recorded {
        let report = pod.containers.get(container);
        match report.map(visible) {
            None => failures.push(format!("pod {name}: container {container} printed nothing")),
            Some(Err(error)) => failures.push(format!("pod {name}: container {container}: {error}")),
            Some(Ok(has)) if has != (record.cores, record.devices) => failures.push(format!(
                "pod {name}: container {container} has cores {{{}}} and devices {{{}}}, its record says {{{}}} and {{{}}}",
                has.0, has.1, record.cores, record.devices
            )),
            Some(Ok(_)) => {}
        }
    }
    let unrecorded = pod.containers.iter().filter(|(container, _)| !recorded.contains_key(*container));
    for (container, report) in unrecorded.filter(|(_, report)| got(report) != ExpectedSets::default()) {
        failures
            .push(format!("pod {name}: container {container} got {} without a record", said(&got(report))));
    }
    failures
}

/// The topology of a scenario's node, n1 first; none for types that only a report describes.
pub(crate) fn topology(scenario: &Scenario, node: &str) -> Option<Topology> {
    let spec = scenario.nodes.get(scenario.place_of(node).ok()?)?;
    let model = Catalog::embedded().find(&spec.instance_type)?;
    Topology::named(&spec.instance_type, model, spec.lnc.unwrap_or(model.default_lnc), Policy::Documented)
        .ok()
}

/// The cores that a pod's containers see, under either name.
pub(crate) fn hardware(pod: &PodOutcome, topology: &Topology) -> CoreSet {
    let sets = pod.containers.values().map(|report| cores_of(report, topology));
    sets.fold(CoreSet::EMPTY, CoreSet::union)
}

/// The cores that a container sees, under either name; none where what it said cannot be read.
pub(crate) fn cores_of(report: &Report, topology: &Topology) -> CoreSet {
    visible(report).map_or(CoreSet::EMPTY, |(cores, devices)| cores.union(topology.cores_of(devices)))
}

/// No core is seen by two running pods, under either name.
fn held_twice(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    let mut holders: BTreeMap<&str, Vec<(&str, CoreSet)>> = BTreeMap::new();
    for (name, pod) in outcome.pods.iter().filter(|(_, pod)| pod.is_running()) {
        let Some((node, topology)) =
            pod.node.as_deref().and_then(|node| Some((node, topology(scenario, node)?)))
        else {
            continue;
        };
        let hardware = hardware(pod, &topology);
        for (other, held) in holders.entry(node).or_default().iter() {
            if held.intersects(hardware) {
                failures.push(format!(
                    "pods {other} and {name} both hold cores {} of {node}",
                    held.intersection(hardware)
                ));
            }
        }
        holders.entry(node).or_default().push((name, hardware));
    }
    failures
}

/// Every set that a running container got is one that its node's type allows.
fn sets_not_allowed(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, pod) in outcome.pods.iter().filter(|(_, pod)| pod.is_running()) {
        let Some(topology) = pod.node.as_deref().and_then(|node| topology(scenario, node)) else {
            continue;
        };
        for (container, report) in &pod.containers {
            let Ok((cores, devices)) = visible(report) else { continue };
            // `allows` asks for cores; a device that the node does not have has none, and would be overlooked.
            if !devices.is_empty() && !topology.device_sets(devices.len()).contains(&devices) {
                failures.push(format!(
                    "pod {name}: container {container} got devices {devices}, which are not an allowed set"
                ));
            }
            if !cores.is_empty() && !topology.is_candidate_set(Resource::Core, cores) {
                failures.push(format!(
                    "pod {name}: container {container} got cores {cores}, which are not an allowed set"
                ));
            }
            let paths = got(report).nodes.unwrap_or_default();
            let seen = devices.union(topology.devices_of(cores));
            if paths != seen.to_string() {
                failures
                    .push(format!("pod {name}: container {container} sees device nodes {paths}, not {seen}"));
            }
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kubernetes_may_refuse_in_other_words_but_must_refuse_and_repeat_ours() {
        let unmet_by = |refusal: &str, said: Option<&str>, texts| {
            let expected = Expected { refusal: Some(refusal.to_owned()), ..Expected::default() };
            let failed_scheduling = said.map(str::to_owned);
            let pod = PodOutcome { phase: "Pending".into(), failed_scheduling, ..PodOutcome::default() };
            unmet_of(&pod, &expected, texts)
        };
        let unmet = |said, texts| unmet_by("Insufficient x", said, texts);
        let theirs = Some("0/1 nodes are available: too few x.");
        assert_eq!(unmet(theirs, SchedulerTexts::LeftOut), Vec::<String>::new());
        assert_eq!(unmet(theirs, SchedulerTexts::Compared).len(), 1);
        assert_eq!(unmet(None, SchedulerTexts::LeftOut).len(), 1);
        assert_eq!(unmet(Some("1 Insufficient x."), SchedulerTexts::Compared), Vec::<String>::new());
        assert_eq!(unmet_by("not enough free", theirs, SchedulerTexts::LeftOut).len(), 1);
    }
}
