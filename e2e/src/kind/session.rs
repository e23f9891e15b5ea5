//! A run on kind from beginning to end: what it needs, the cluster, every scenario on both clusters, nothing left.

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use super::stage::Stage;
use super::{KindCluster, Options, Scheduling, compare, doctor, guard};
use crate::cli::on_embedded;
use crate::cluster::Cluster as _;
use crate::embedded;
use crate::output::Row;
use crate::run::{self, Finished};
use crate::scenario::{Scenario, Tier};

/// What came of a run.
pub enum Session {
    /// Every scenario was run, once for each way of scheduling.
    Ran(Vec<Row>),
    /// This machine lacks something; what, and what to do about it.
    Skipped(String),
}

/// Runs the scenarios in order, in every way of scheduling, those of the fault tier in the first one; the cluster is gone afterwards unless it is to be kept.
/// An error if a signal ended it, the cluster could not be had, or something stayed behind.
pub async fn run(scenarios: &[Scenario], ways: &[Scheduling], options: Options) -> anyhow::Result<Session> {
    for finding in doctor::look(options.node_image.as_deref()).await {
        if let Err(why) = finding.found {
            return Ok(Session::Skipped(format!("{}: {why}", finding.what)));
        }
    }
    let (name, keep) = (options.name.clone(), options.keep);
    let mut terminate = signal(SignalKind::terminate())?;
    // Whichever ends first, the other's future is dropped here, and the cluster with it.
    let rows = tokio::select! {
        rows = run_all(scenarios, ways, options) => rows?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
    };
    if !keep {
        let left = guard::left_behind(&name).await?;
        if !left.is_empty() {
            bail!("left behind: {}", left.join(", "));
        }
    }
    Ok(Session::Ran(rows))
}

async fn run_all(scenarios: &[Scenario], ways: &[Scheduling], options: Options) -> anyhow::Result<Vec<Row>> {
    let cluster = KindCluster::up(&options).await?;
    let mut rows = Vec::new();
    for way in ways {
        let began = Instant::now();
        let runs = |scenario: &&Scenario| runs_here(scenario) && (*way == ways[0] || scenario.tier != Tier::Faults);
        for scenario in scenarios.iter().filter(runs) {
            let began = Instant::now();
            let result = on_both(&cluster, scenario, *way).await;
            let mut row = Row::new(scenario, result, began.elapsed().as_secs_f64());
            row.cluster = Some(format!("kind, {}", way.scheduler_name()));
            if !row.passed {
                let folder =
                    cluster.keep_evidence(&format!("{}-{}", scenario.name, way.scheduler_name())).await;
                row.failures.push(match folder {
                    Ok(folder) => format!("evidence: {}", folder.display()),
                    Err(error) => format!("no evidence: {error:#}"),
                });
            }
            let word = if row.passed { "passed" } else { "FAILED" };
            eprintln!("{word} {:6.2} s  {}", row.seconds, row.scenario);
            for failure in &row.failures {
                eprintln!("{failure}");
            }
            rows.push(row);
        }
        eprintln!("{:6.1} s  scenarios with {}", began.elapsed().as_secs_f64(), way.scheduler_name());
    }
    Ok(rows)
}

fn runs_here(scenario: &Scenario) -> bool {
    scenario.only.as_ref().is_none_or(|only| only.cluster == "kind")
}

/// One scenario on kind and, where the two must agree, on the embedded cluster; a difference is a failure.
async fn on_both(cluster: &KindCluster, scenario: &Scenario, way: Scheduling) -> anyhow::Result<Finished> {
    let stage = Stage::set(cluster, scenario, way).await.context("preparing the nodes")?;
    let finished = run::run(&stage, scenario).await;
    // Evidence of a failure is in what is still there.
    if finished.as_ref().is_ok_and(|finished| finished.failures.is_empty()) {
        stage.down().await.context("clearing the nodes")?;
    } else {
        stage.restart_stopped().await?;
    }
    let mut finished = finished?;
    if scenario.invariants_only.is_none() && scenario.only.is_none() {
        let embedded =
            on_embedded(scenario, embedded::Options::default()).await.context("on the embedded cluster")?;
        finished.failures.extend(compare::difference(&embedded.outcome, &finished.outcome)?);
    }
    Ok(finished)
}
