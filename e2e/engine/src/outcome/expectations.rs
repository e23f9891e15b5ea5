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
        let answered: Vec<String> = report.ioctls.iter().map(|answers| answers.host_id.to_string()).collect();
        ExpectedSets {
            cores: report.env.get(names::VISIBLE_CORES).cloned(),
            devices: report.env.get(names::VISIBLE_DEVICES).cloned(),
            nodes: (!numbers.is_empty()).then(|| numbers.join(",")),
            ioctls: (!answered.is_empty()).then(|| answered.join(",")),
            reserved: report.reserved.clone(),
        }
    }
}

impl fmt::Display for ExpectedSets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("cores", &self.cores),
            ("devices", &self.devices),
            ("device nodes", &self.nodes),
            ("ioctls", &self.ioctls),
            ("reserved", &self.reserved),
        ];
        let parts = parts.into_iter().filter_map(|(name, ids)| Some(format!("{name} {}", ids.as_ref()?)));
        let parts: Vec<String> = parts.collect();
        f.write_str(if parts.is_empty() { "nothing".to_owned() } else { parts.join("; ") }.as_str())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::scenario::library;

    const SCENARIO: &str = "
about: x
nodes: [{type: inf2.24xlarge}]
steps: []
expect:
  runs: {phase: Running, node: n1, got: {main: {cores: \"2\", nodes: \"1\"}}, event: AllocationCorrected}
  waits: {phase: Pending, refusal: not enough free}
interchangeable: [[left, right]]
";

    fn scenario() -> Scenario {
        library::parse("expects", SCENARIO, &Default::default()).unwrap().remove(0)
    }

    /// An outcome that is as the scenario expects.
    fn outcome() -> Outcome {
        let report = Report {
            env: [(names::VISIBLE_CORES.to_owned(), "2".to_owned())].into(),
            devices: vec!["/dev/neuron1".to_owned()],
            ..Report::default()
        };
        let runs = PodOutcome {
            phase: "Running".into(),
            node: Some("n1".into()),
            containers: [("main".to_owned(), report)].into(),
            events: vec!["Normal AllocationCorrected: kubelet chose core 2".to_owned()],
            ..PodOutcome::default()
        };
        let message = Some("0/1 nodes are available: 1 not enough free: cores asked 2.".to_owned());
        let waits =
            PodOutcome { phase: "Pending".into(), failed_scheduling: message, ..PodOutcome::default() };
        let pods = [("runs", runs.clone()), ("waits", waits), ("left", runs.clone()), ("right", runs)];
        Outcome { version: 1, pods: pods.map(|(name, pod)| (name.to_owned(), pod)).into() }
    }

    #[test]
    fn an_outcome_may_be_as_expected() {
        assert_eq!(unmet(&scenario(), &outcome(), SchedulerTexts::Compared), Vec::<String>::new());
    }

    #[rstest]
    #[case::no_pod(|outcome: &mut Outcome| drop(outcome.pods.remove("runs")), "pod runs is not there")]
    #[case::no_interchangeable_pod(
        |outcome: &mut Outcome| drop(outcome.pods.remove("right")),
        "pod right is not there"
    )]
    #[case::another_phase(
        |outcome: &mut Outcome| {
            let pod = outcome.pods.get_mut("runs").unwrap();
            (pod.phase, pod.failure) = ("Failed".into(), Some("OOMKilled".into()));
        },
        "pod runs: is Failed, not Running: OOMKilled"
    )]
    #[case::another_node(
        |outcome: &mut Outcome| outcome.pods.get_mut("runs").unwrap().node = Some("n2".into()),
        "pod runs: is on n2, not on n1"
    )]
    #[case::no_node(
        |outcome: &mut Outcome| outcome.pods.get_mut("runs").unwrap().node = None,
        "pod runs: is on no node, not on n1"
    )]
    #[case::nothing_printed(
        |outcome: &mut Outcome| outcome.pods.get_mut("runs").unwrap().containers.clear(),
        "pod runs: container main printed nothing"
    )]
    #[case::another_set(
        |outcome: &mut Outcome| {
            let report = outcome.pods.get_mut("runs").unwrap().containers.get_mut("main").unwrap();
            report.env = [(names::VISIBLE_DEVICES.to_owned(), "1".to_owned())].into();
        },
        "pod runs: container main got devices 1; device nodes 1, not cores 2; device nodes 1"
    )]
    #[case::nothing_got(
        |outcome: &mut Outcome| {
            outcome.pods.get_mut("runs").unwrap().containers.insert("main".into(), Report::default());
        },
        "pod runs: container main got nothing, not cores 2; device nodes 1"
    )]
    #[case::no_event(
        |outcome: &mut Outcome| outcome.pods.get_mut("runs").unwrap().events.clear(),
        "pod runs: has no event with \"AllocationCorrected\" but []"
    )]
    #[case::another_refusal(
        |outcome: &mut Outcome| outcome.pods.get_mut("waits").unwrap().failed_scheduling = Some("busy".into()),
        "pod waits: was not refused with \"not enough free\" but Some(\"busy\")"
    )]
    #[case::no_refusal(
        |outcome: &mut Outcome| outcome.pods.get_mut("waits").unwrap().failed_scheduling = None,
        "pod waits: was not refused with \"not enough free\" but None"
    )]
    fn whatever_is_not_as_expected_is_found(#[case] change: fn(&mut Outcome), #[case] text: &str) {
        let mut outcome = outcome();
        change(&mut outcome);
        assert_eq!(unmet(&scenario(), &outcome, SchedulerTexts::Compared), [text]);
    }

    #[rstest]
    #[case::other_words("Insufficient x", Some("1 node(s) lack x."), SchedulerTexts::LeftOut, true)]
    #[case::other_words_of_this_version(
        "Insufficient x",
        Some("1 node(s) lack x."),
        SchedulerTexts::Compared,
        false
    )]
    #[case::no_words("Insufficient x", None, SchedulerTexts::LeftOut, false)]
    #[case::its_words("Insufficient x", Some("1 Insufficient x."), SchedulerTexts::Compared, true)]
    #[case::not_the_extenders_words(
        "not enough free",
        Some("1 node(s) lack x."),
        SchedulerTexts::LeftOut,
        false
    )]
    fn another_kubernetes_may_refuse_in_other_words_but_must_refuse_and_repeat_ours(
        #[case] expected: &str,
        #[case] message: Option<&str>,
        #[case] texts: SchedulerTexts,
        #[case] is_met: bool,
    ) {
        let expected = Expected { refusal: Some(expected.to_owned()), ..Expected::default() };
        let failed_scheduling = message.map(str::to_owned);
        let pod = PodOutcome { phase: "Pending".into(), failed_scheduling, ..PodOutcome::default() };
        assert_eq!(unmet_by(&pod, &expected, texts).is_empty(), is_met);
    }
}
