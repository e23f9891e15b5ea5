//! Kubelets that take the worst of their free choices. A part of the scenarios here, each with one seed; `.ci/run`
//! runs all of them with all seeds.

use futures::StreamExt as _;
use neuron_e2e::report::Row;
use neuron_e2e_engine::embedded;
use neuron_e2e_engine::embedded::Options;
use neuron_e2e_engine::scenario::{CatalogSource, Tier, library};

/// Sweeps over counts and types: one pod after another on an empty node leaves kubelet nothing to choose.
const SWEEPS: [&str; 3] = ["every-type/", "device-counts-", "core-counts-"];
const SEEDS: [u64; 3] = [1, 2, 3];
/// Scenarios that run at the same time; they wait more than they work.
const JOBS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn adversarial_kubelets_break_no_scenario() {
    let scenarios = library::all(&CatalogSource::default()).unwrap().into_iter();
    let chosen = scenarios.filter(|scenario| {
        let is_here = scenario.only.as_ref().is_none_or(|only| only.cluster == "embedded");
        is_here
            && scenario.tier == Tier::Placement
            && !SWEEPS.iter().any(|sweep| scenario.name.starts_with(sweep))
    });
    let rows: Vec<Row> = futures::stream::iter(chosen.zip(SEEDS.into_iter().cycle()))
        .map(|(scenario, seed)| async move {
            let options = Options { seed, adversarial: true, ..Options::default() };
            Row::new(&scenario, embedded::run(&scenario, options).await, 0.0)
        })
        .buffer_unordered(JOBS)
        .collect()
        .await;
    let failed: Vec<String> = rows
        .iter()
        .filter(|row| !row.passed)
        .map(|row| format!("{}: {}", row.scenario, row.failures.join("; ")))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(rows.len() > 20, "only {} scenarios were run", rows.len());
}
