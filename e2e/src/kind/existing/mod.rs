//! `--use CONTEXT`: scenarios on a cluster that is somebody else's. Only its nodes labelled `neuron-e2e/fake=true` are
//! workers, and everything that was added is taken away at the end. Called by the command line.

mod begin;
mod containers;
mod leave;
mod refusal;
mod skips;
mod tenant;
mod workers;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::access::Access;
use super::jobs::Jobs;
use super::phases::Phases;
use super::session::{self, Running};
use super::{KindCluster, Scheduling, images};
use crate::output::Row;
use crate::scenario::Scenario;
use containers::Containers;
use skips::Abilities;
pub(super) use tenant::Tenant;
use workers::Choice;

/// Label of the nodes that a run uses, while it uses them: what runs on nodes of ours runs on these only.
pub(super) const WORKER: (&str, &str) = ("neuron-e2e/worker", "true");

/// Runs the scenarios with my-scheduler on the cluster of this context of the user's kubeconfig and takes everything
/// away again: a row for each, in order, those that cannot run here as skipped. Errors: the cluster cannot be used,
/// and why; a signal ended it; something stayed behind.
pub async fn run(scenarios: &[Scenario], context: &str, skip_images: bool) -> anyhow::Result<Vec<Row>> {
    session::unless_ended(on(scenarios, context, skip_images)).await
}

async fn on(scenarios: &[Scenario], context: &str, skip_images: bool) -> anyhow::Result<Vec<Row>> {
    let phases = Phases::begin();
    let access = Access::Context(context.to_owned());
    let client = access.client().await.with_context(|| format!("--use {context}"))?;
    tenant::clear_up_after_a_killed_run(&access).await?;
    let wanted = scenarios.iter().map(|scenario| scenario.nodes.len()).max().unwrap_or(1);
    let nodes = begin::nodes(&client).await.with_context(|| format!("--use {context}"))?;
    let Choice { workers, aside } = Choice::of(context, &nodes, wanted)?;
    for (node, why) in aside {
        eprintln!("node {node} is labelled, but not used: {why}");
    }
    refusal::look(&access, &client, context).await?;
    let containers = Containers::among(&nodes).await;
    let abilities = Abilities::new(&workers, &nodes, &containers);
    let (mut rows, mut runnable, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (place, scenario) in scenarios.iter().enumerate() {
        match abilities.skipped(scenario) {
            Some(why) => {
                eprintln!("skipped           {}: {why}", scenario.name);
                rows.push((place, Row::skipped(scenario, why)));
            }
            None => {
                runnable.push(scenario.clone());
                places.push(place);
            }
        }
    }
    if !runnable.is_empty() {
        let began = Instant::now();
        if containers.cluster().is_some() {
            images::build(skip_images).await?;
            phases.done("images", began);
        }
        let cluster =
            KindCluster::move_in(&access, context, &workers, &containers, &runnable, &phases).await?;
        let running = Running::new(Jobs::new(&runnable, &[Scheduling::MyScheduler]), &runnable, phases);
        let ran = running.serve(&cluster, 0, workers.len()).await;
        rows.extend(ran.into_iter().filter_map(|(place, row)| Some((*places.get(place)?, row))));
        let began = Instant::now();
        cluster.down().await.with_context(|| format!("giving the cluster of context {context:?} back"))?;
        running.phases().done(format!("{context}: everything taken away"), began);
        running.phases().tell();
    }
    rows.sort_by_key(|(place, _)| *place);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// The manifests as one JSON list, every DaemonSet on the run's own workers only: a cluster may have nodes with real
/// hardware, and nodes that are labelled but not used.
pub(super) fn confined(manifests: &str) -> anyhow::Result<String> {
    let mut items: Vec<Value> = serde_saphyr::from_multiple(manifests).context("manifests of deploy/")?;
    for item in items.iter_mut().filter(|item| item["kind"] == "DaemonSet") {
        item["spec"]["template"]["spec"]["nodeSelector"][WORKER.0] = json!(WORKER.1);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

#[cfg(test)]
mod tests {
    use super::super::install;
    use super::*;

    #[test]
    fn daemon_sets_keep_to_the_runs_workers_and_nothing_else_changes() {
        let before: Vec<Value> = serde_saphyr::from_multiple(&install::manifests()).unwrap();
        let after: Value = serde_json::from_str(&confined(&install::manifests()).unwrap()).unwrap();
        let after = after["items"].as_array().unwrap();
        assert_eq!(before.len(), after.len());
        let mut confined = 0;
        for (before, after) in before.iter().zip(after) {
            if before["kind"] == "DaemonSet" {
                assert_eq!(after["spec"]["template"]["spec"]["nodeSelector"][WORKER.0], WORKER.1);
                confined += 1;
            } else {
                assert_eq!(before, after);
            }
        }
        assert_eq!(confined, 2);
    }
}
