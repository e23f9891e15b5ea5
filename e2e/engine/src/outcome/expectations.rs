//! What of an outcome is not as the scenario's file expects. Called by [`crate::run`].

use std::fmt;

use neuron_core::names;
use neuron_workload::Report;

use super::{Outcome, PodOutcome, SchedulerTexts};
use crate::scenario::{Expected, ExpectedSets, Scenario};

/// Expectations of the scenario that the outcome does not meet, one sentence each; empty if it meets all of them.
pub fn unmet(scenario: &Scenario, outcome: &Outcome, texts: SchedulerTexts) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, expected) in &scenario.expect {
        match outcome.pods.get(name) {
            None => failures.push(format!("pod {name} is not there")),
            Some(pod) => {
                let unmet = unmet_by(pod, expected, texts);
                failures.extend(unmet.into_iter().map(|text| format!("pod {name}: {text}")))
            }
        }
    }
    for group in &scenario.interchangeable {
        let missing = group.iter().filter(|name| !outcome.pods.contains_key(*name));
        failures.extend(missing.map(|name| format!("pod {name} is not there")));
    }
    failures
}

/// What of one pod is not as expected.
fn unmet_by(pod: &PodOutcome, expected: &Expected, texts: SchedulerTexts) -> Vec<String> {
    let mut failures = Vec::new();
    if let Some(phase) = expected.phase.as_ref().filter(|phase| **phase != pod.phase) {
        let why = pod.refusal_text().map_or(String::new(), |why| format!(": {why}"));
        failures.push(format!("is {}, not {phase}{why}", pod.phase));
    }
    if let Some(node) = &expected.node
        && pod.node.as_ref() != Some(node)
    {
        failures.push(format!("is on {}, not on {node}", pod.node.as_deref().unwrap_or("no node")));
    }
    for (container, sets) in &expected.got {
        match pod.containers.get(container).map(ExpectedSets::of) {
            None => failures.push(format!("container {container} printed nothing")),
            Some(got) if got != *sets => {
                failures.push(format!("container {container} got {got}, not {sets}"));
            }
            Some(_) => {}
        }
    }
    failures.extend(expected.refusal.as_ref().and_then(|text| without_refusal(pod, text, texts)));
    if let Some(text) = &expected.event
        && !pod.events.iter().any(|event| event.contains(text.as_str()))
    {
        failures.push(format!("has no event with {text:?} but {:?}", pod.events));
    }
    failures
}

/// The failure of a pod that was not refused with this text.
fn without_refusal(pod: &PodOutcome, text: &str, texts: SchedulerTexts) -> Option<String> {
    let contains = |message: &Option<String>| message.as_ref().is_some_and(|message| message.contains(text));
    // Another version of Kubernetes may choose other words of its own; the extender's it must repeat.
    let is_kubernetes_own = ["Insufficient ", "nodes are available"].iter().any(|words| text.contains(words));
    let is_excused = texts == SchedulerTexts::LeftOut && is_kubernetes_own && pod.failed_scheduling.is_some();
    let is_met = is_excused || contains(&pod.failed_scheduling) || contains(&pod.failure);
    let had = pod.failed_scheduling.as_ref().or(pod.failure.as_ref());
    (!is_met).then(|| format!("was not refused with {text:?} but {had:?}"))
}

impl ExpectedSets {
    /// What a container really got, in the form of an expectation.
    pub(crate) fn of(report: &Report) -> Self {
        let numbers: Vec<&str> =
            report.devices.iter().filter_map(|path| path.strip_prefix("/dev/neuron")).collect();
        ExpectedSets {
            cores: report.env.get(names::VISIBLE_CORES).cloned(),
            devices: report.env.get(names::VISIBLE_DEVICES).cloned(),
            nodes: (!numbers.is_empty()).then(|| numbers.join(",")),
        }
    }
}

impl fmt::Display for ExpectedSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("cores", &self.cores), ("devices", &self.devices), ("device nodes", &self.nodes)];
        let parts = parts.into_iter().filter_map(|(name, ids)| Some(format!("{name} {}", ids.as_ref()?)));
        let parts: Vec<String> = parts.collect();
        f.write_str(if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kubernetes_may_refuse_in_other_words_but_must_refuse_and_repeat_ours() {
        let unmet_by = |refusal: &str, message: Option<&str>, texts| {
            let expected = Expected { refusal: Some(refusal.to_owned()), ..Expected::default() };
            let failed_scheduling = message.map(str::to_owned);
            let pod = PodOutcome { phase: "Pending".into(), failed_scheduling, ..PodOutcome::default() };
            unmet_by(&pod, &expected, texts)
        };
        let unmet = |message, texts| unmet_by("Insufficient x", message, texts);
        let theirs = Some("0/1 nodes are available: too few x.");
        assert_eq!(unmet(theirs, SchedulerTexts::LeftOut), Vec::<String>::new());
        assert_eq!(unmet(theirs, SchedulerTexts::Compared).len(), 1);
        assert_eq!(unmet(None, SchedulerTexts::LeftOut).len(), 1);
        assert_eq!(unmet(Some("1 Insufficient x."), SchedulerTexts::Compared), Vec::<String>::new());
        assert_eq!(unmet_by("not enough free", theirs, SchedulerTexts::LeftOut).len(), 1);
    }
}
