//! What must hold of the pods after every scenario of the fault tier, whatever broke meanwhile: none is lost, none waits, and none
//! failed that kubelet would not fail anyway. Part of [`super::failures`].

use std::collections::BTreeSet;

use crate::outcome::Outcome;
use crate::scenario::{Scenario, Step};

/// Pods that are missing, still wait, or failed with words that neither the scenario nor kubelet accounts for.
pub(super) fn broken(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    let (mut wanted, mut deleted) = (BTreeSet::new(), BTreeSet::new());
    applied(&scenario.steps, &mut wanted, &mut deleted);
    for name in wanted.difference(&deleted).filter(|name| !outcome.pods.contains_key(**name)) {
        failures.push(format!("pod {name} is lost"));
    }
    let late = created_after_faults(scenario);
    for (name, pod) in outcome.pods.iter().filter(|(name, _)| !scenario.expect.contains_key(*name)) {
        let why = pod.failure.as_ref().or(pod.failed_scheduling.as_ref()).map_or("", String::as_str);
        let may_be_said = || scenario.kubelet_may_say.iter().any(|words| why.contains(words.as_str()));
        let excused = || !late.contains(name.as_str()) && may_be_said();
        match pod.phase.as_str() {
            "Running" | "Succeeded" | "Refused" => {}
            "Failed" if excused() => {}
            phase => failures.push(format!("pod {name} is {phase}: {why}")),
        }
    }
    failures
}

/// The names of pods that were created once the parts they met were back: nothing excuses these.
fn created_after_faults(scenario: &Scenario) -> BTreeSet<&str> {
    let last = scenario.steps.iter().filter_map(|step| match step {
        Step::Amid(amid) => Some(amid.groups()[2]),
        _ => None,
    });
    last.flatten().filter_map(|manifest| manifest["metadata"]["name"].as_str()).collect()
}

/// The names of pods that these steps apply, and of those that they force away.
fn applied<'a>(steps: &'a [Step], wanted: &mut BTreeSet<&'a str>, deleted: &mut BTreeSet<&'a str>) {
    for step in steps {
        if let Step::ForceDelete(names) = step {
            deleted.extend(names.iter().map(String::as_str));
        }
        let (manifests, inner) = step.applies();
        wanted.extend(manifests.iter().filter_map(|manifest| manifest["metadata"]["name"].as_str()));
        applied(inner, wanted, deleted);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::outcome::PodOutcome;
    use crate::scenario::library;

    const FORTY: &str = "about: x
invariants_only: x
kubelet_may_say: [is away]
nodes: [{type: inf2.24xlarge}]
steps:
- amid:
    bound: 1
    apply:
    - repeat: {number: 8}
      steps:
      - {apiVersion: v1, kind: Pod, metadata: {name: \"p${number}\"}, spec: {containers: []}}
    steps: [{restart: {part: plugin}}]
";

    #[test]
    fn a_pod_created_once_the_part_is_back_has_no_excuse() {
        let mut scenario = library::parse("forty", FORTY).unwrap().remove(0);
        scenario.tier = crate::scenario::Tier::Faults;
        let pod = |phase: &str, failure: &str| PodOutcome {
            phase: phase.into(),
            failure: Some(failure.into()),
            ..PodOutcome::default()
        };
        let mut outcome = Outcome { version: 1, pods: BTreeMap::new() };
        for number in 1..=8 {
            outcome.pods.insert(format!("p{number}"), pod("Running", ""));
        }
        assert_eq!(broken(&scenario, &outcome), Vec::<String>::new());
        outcome.pods.insert("p1".into(), pod("Failed", "the plugin is away"));
        outcome.pods.insert("p7".into(), pod("Failed", "the plugin is away"));
        outcome.pods.insert("p8".into(), pod("Failed", "the plugin is away"));
        assert_eq!(broken(&scenario, &outcome), ["pod p8 is Failed: the plugin is away"]);
    }
}
