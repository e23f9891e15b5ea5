//! The outcome document of every scenario on the embedded cluster with seed 0, and two views over all of them. Both
//! versions of Kubernetes give the same documents: one snapshot holds both. Scenarios run once with each, several at a time;
//! what differs is reported together at the end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::StreamExt as _;
use neuron_e2e_engine::embedded::{self, Options, Version};
use neuron_e2e_engine::outcome::{Outcome, PodOutcome};
use neuron_e2e_engine::scenario::{CatalogSource, Scenario, library};
use serde_json::{Value, json};

/// Scenarios that run at the same time; they wait more than they work.
const JOBS: usize = 4;
/// Scenarios that AWS' documentation gives as examples.
const DOCUMENTED: [&str; 4] = ["documented-cores", "documented-devices", "nine-cores", "warning-seven"];

#[tokio::test(flavor = "multi_thread")]
async fn documents() {
    let mut wrong = Vec::new();
    for kubernetes in Version::ALL {
        let of_version = documents_of(kubernetes).await.into_iter();
        wrong.extend(of_version.map(|text| format!("Kubernetes {kubernetes}: {text}")));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// What differs from the snapshots, one text each.
async fn documents_of(kubernetes: Version) -> Vec<String> {
    let options = Options { kubernetes, ..Options::default() };
    let mut wrong = Vec::new();
    let mut outcomes = BTreeMap::new();
    let scenarios = library::all(&CatalogSource::default()).unwrap();
    let mut runs = futures::stream::iter(scenarios.iter().filter(|scenario| runs_here(scenario)))
        .map(|scenario| async move { (scenario, embedded::run(scenario, options).await) })
        .buffer_unordered(JOBS);
    while let Some((scenario, finished)) = runs.next().await {
        match finished {
            Err(error) => wrong.push(format!("{}: {error:#}", scenario.name)),
            Ok(finished) if !finished.failures.is_empty() => {
                wrong.push(format!("{}: {}", scenario.name, finished.failures.join("; ")));
            }
            Ok(finished) => drop(outcomes.insert(scenario.name.clone(), finished.outcome)),
        }
    }
    for scenario in scenarios.iter().filter(|scenario| same_everywhere(scenario)) {
        let Some(outcome) = outcomes.get(&scenario.name) else { continue };
        let name = scenario.name.replace('/', ".");
        wrong.extend(mismatch("outcomes", &name, &scenario.about, &outcome.to_text().unwrap()));
    }
    // A view that lacks a failed scenario would only repeat the failure.
    if wrong.is_empty() {
        outcomes.retain(|name, _| scenarios.iter().any(|one| one.name == *name && same_everywhere(one)));
        wrong.extend(mismatch("overviews", "events", "Our events, by scenario and pod.", &events(&outcomes)));
        let about = "What the pods of the documented examples carry and are told.";
        wrong.extend(mismatch("overviews", "documented", about, &documented(&outcomes)));
    }
    wrong
}

#[test]
fn no_snapshot_is_left_of_a_scenario_that_is_gone() {
    let scenarios = library::all(&CatalogSource::default()).unwrap();
    let compared = scenarios.iter().filter(|scenario| same_everywhere(scenario));
    let compared: BTreeSet<String> =
        compared.map(|scenario| scenario.name.replace('/', ".") + ".snap").collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/outcomes");
    let files =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> = files.filter(|name| name.ends_with(".snap")).collect();
    assert_eq!(files, compared);
}

/// Whether the embedded cluster can run it.
fn runs_here(scenario: &Scenario) -> bool {
    scenario.only.as_ref().is_none_or(|only| only.cluster == "embedded")
}

/// Whether two runs, and two kinds of cluster, must give the same document.
fn same_everywhere(scenario: &Scenario) -> bool {
    scenario.invariants_only.is_none() && scenario.only.is_none()
}

/// Compares with the stored snapshot; insta prints the difference, and its name is returned.
fn mismatch(folder: &str, name: &str, about: &str, text: &str) -> Option<String> {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_description(about);
    let compared = catch_unwind(AssertUnwindSafe(|| settings.bind(|| insta::assert_snapshot!(name, text))));
    compared.err().map(|_| format!("{folder}/{name}: the snapshot differs"))
}

fn events(outcomes: &BTreeMap<String, Outcome>) -> String {
    by_pod(outcomes, |pod| (!pod.events.is_empty()).then(|| json!(pod.events)))
}

fn documented(outcomes: &BTreeMap<String, Outcome>) -> String {
    let examples = outcomes.iter().filter(|(name, _)| DOCUMENTED.contains(&name.as_str()));
    let examples = examples.map(|(name, outcome)| (name.clone(), outcome.clone())).collect();
    by_pod(&examples, |pod| {
        Some(json!({
            "annotations": pod.annotations,
            "containers": pod.containers,
            "events": pod.events,
            "failed_scheduling": pod.failed_scheduling,
        }))
    })
}

/// JSON of what `shown` picks of each pod: scenario, then pod.
fn by_pod(outcomes: &BTreeMap<String, Outcome>, shown: impl Fn(&PodOutcome) -> Option<Value>) -> String {
    let mut all: BTreeMap<&str, BTreeMap<&str, Value>> = BTreeMap::new();
    for (scenario, outcome) in outcomes {
        for (name, pod) in &outcome.pods {
            if let Some(value) = shown(pod) {
                all.entry(scenario).or_default().insert(name, value);
            }
        }
    }
    serde_json::to_string_pretty(&all).unwrap()
}
