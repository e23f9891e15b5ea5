//! A run on kind from beginning to end: what it needs, the clusters, every scenario on both kinds, nothing left.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow, bail};
use futures::future::try_join_all;
use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::jobs::{Job, Jobs};
use super::phases::Phases;
use super::pool::{Pool, volumes};
use super::stage::Stage;
use super::{KindCluster, Options, Scheduling, doctor, images};
use crate::report::Row;
use neuron_e2e_engine::cluster::Cluster as _;
use neuron_e2e_engine::embedded;
use neuron_e2e_engine::outcome::{Outcome, compare};
use neuron_e2e_engine::run::{self, Finished};
use neuron_e2e_engine::scenario::{Scenario, Tier};

/// What came of a run.
pub enum Session {
    /// Every scenario was run, once for each way of scheduling: those of the first way in order, then the next way's.
    Ran(Vec<Row>),
    /// This machine lacks something; what, and what to do about it.
    Skipped(String),
}

/// Runs the scenarios in every way of scheduling, on at most so many clusters side by side; these are gone afterwards
/// unless they are to be kept. `options` tell how the first is made; how many workers each has follows from the
/// scenarios. An error if a signal ended it, a cluster could not be had, or something stayed behind.
pub async fn run(
    scenarios: &[Scenario],
    ways: &[Scheduling],
    options: Options,
    clusters: usize,
) -> anyhow::Result<Session> {
    let jobs = Jobs::new(scenarios, ways);
    let sizes = jobs.sizes(clusters);
    let pool = Pool::new(&options, &sizes);
    // Those that an earlier run kept have their memory already.
    let standing = if options.keep { pool.standing().await } else { 0 };
    for finding in doctor::look(options.node_image.as_deref(), sizes.len() - standing).await {
        if let Err(why) = finding.found {
            return Ok(Session::Skipped(format!("{}: {why}", finding.what)));
        }
    }
    let running = Running::new(jobs, scenarios, Phases::begin());
    let mut rows = unless_ended(running.all(&pool, &options)).await;
    if !options.keep {
        let volumes = running.volumes.into_inner().unwrap_or_else(PoisonError::into_inner);
        rows = with_nothing_left(rows, pool.left_behind(&volumes)).await;
    }
    let mut rows = rows?;
    running.phases.tell();
    rows.sort_by_key(|(place, _)| *place);
    Ok(Session::Ran(rows.into_iter().map(|(_, row)| row).collect()))
}

/// What the work gives, unless a signal ends it first: then it is dropped here, and its clusters with it.
pub(crate) async fn unless_ended<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = terminate.recv() => bail!("terminated"),
        _ = hang_up.recv() => bail!("the terminal is gone"),
        result = work => result,
    }
}

/// The result of work that is over, which is an error, too, where something of it stayed behind.
pub(crate) async fn with_nothing_left<T>(
    result: anyhow::Result<T>,
    left: impl Future<Output = anyhow::Result<Vec<String>>>,
) -> anyhow::Result<T> {
    let left = match left.await {
        Ok(left) if left.is_empty() => return result,
        Ok(left) => anyhow!("left behind: {}", left.join(", ")),
        Err(error) => error.context("looking for what stayed behind"),
    };
    Err(match result {
        Ok(_) => left,
        Err(error) => error.context(format!("{left:#}")),
    })
}

/// The result of work that is over, its kept clusters deleted: an error, too, where something of them stayed behind.
pub(crate) async fn cleared<T>(result: anyhow::Result<T>, options: &Options) -> anyhow::Result<T> {
    let pool = Pool::new(options, &[1]);
    let left = async {
        pool.clear().await?;
        pool.left_behind(&BTreeSet::new()).await
    };
    with_nothing_left(result, left).await
}

/// What the clusters of one run share.
pub(super) struct Running<'s> {
    jobs: Jobs<'s>,
    phases: Phases,
    scenarios: &'s [Scenario],
    /// What came of each scenario on the embedded cluster, made when it is first asked for.
    embedded: Vec<OnceCell<Outcome>>,
    /// Whether a scenario has come to its end.
    placed: AtomicBool,
    /// What Docker made for the nodes.
    volumes: Mutex<BTreeSet<String>>,
}

impl<'s> Running<'s> {
    /// With nothing done yet.
    pub(super) fn new(jobs: Jobs<'s>, scenarios: &'s [Scenario], phases: Phases) -> Self {
        Self {
            jobs,
            phases,
            scenarios,
            embedded: scenarios.iter().map(|_| OnceCell::new()).collect(),
            placed: AtomicBool::new(false),
            volumes: Mutex::default(),
        }
    }

    /// Every job, on every cluster of the pool; rows with their places.
    async fn all(&self, pool: &Pool, options: &Options) -> anyhow::Result<Vec<(usize, Row)>> {
        let began = Instant::now();
        images::build(options.skip_images).await?;
        self.phases.done("images", began);
        if !options.keep {
            pool.clear().await?;
        }
        let members = pool.members().iter().enumerate();
        let rows = try_join_all(members.map(|(place, member)| async move {
            self.on_cluster(place, member).await.with_context(|| format!("cluster {}", member.name))
        }));
        Ok(rows.await?.into_iter().flatten().collect())
    }

    /// One cluster, from its making to its end.
    async fn on_cluster(&self, place: usize, options: &Options) -> anyhow::Result<Vec<(usize, Row)>> {
        let cluster = KindCluster::up_in(options, &self.phases).await?;
        let made = volumes(&options.name).await?;
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
        let rows = self.serve(&cluster, place, options.workers).await;
        if !options.keep {
            let began = Instant::now();
            cluster.down().await?;
            self.phases.done(format!("{}: deleted", options.name), began);
        }
        Ok(rows)
    }

    /// The cluster at this place, which has so many workers, takes jobs while there are any for it.
    pub(super) async fn serve(
        &self,
        cluster: &KindCluster,
        place: usize,
        workers: usize,
    ) -> Vec<(usize, Row)> {
        let mut rows = Vec::new();
        let mut began = Instant::now();
        let mut way: Option<(Scheduling, usize)> = None;
        let done = |(way, count): (Scheduling, usize), began| {
            let name = cluster.name();
            self.phases.done(format!("{name}: {count} scenarios with {}", way.scheduler_name()), began);
        };
        while let Some(job) = self.jobs.take(place, workers) {
            if let Some(ended) = way.filter(|(way, _)| *way != job.way) {
                done(ended, began);
                (way, began) = (None, Instant::now());
            }
            rows.push((job.place, self.job(cluster, &job).await));
            way = Some((job.way, way.map_or(0, |(_, count)| count) + 1));
        }
        if let Some(ended) = way {
            done(ended, began);
        }
        rows
    }

    async fn job(&self, cluster: &KindCluster, job: &Job<'_>) -> Row {
        let (scenario, way) = (job.scenario, job.way);
        let began = Instant::now();
        let result = self.on_both(cluster, scenario, way).await;
        let mut row = Row::new(scenario, result, began.elapsed().as_secs_f64());
        row.cluster = Some(format!("kind, {}", way.scheduler_name()));
        if !self.placed.swap(true, Ordering::Relaxed) {
            self.phases.reached(format!("until the first scenario, {}, was over", scenario.name));
        }
        if !row.passed {
            let of = format!("{}-{}", scenario.name, way.scheduler_name());
            row.failures.push(cluster.evidence(&of).await);
        }
        let word = if row.passed { "passed" } else { "FAILED" };
        let failures: String = row.failures.iter().map(|failure| format!("\n{failure}")).collect();
        // One call: other clusters' lines must not come in between.
        eprintln!(
            "{word} {:6.2} s  {:12}  {:17}  {}{failures}",
            row.seconds,
            cluster.name(),
            way.scheduler_name(),
            row.scenario
        );
        row
    }

    /// One scenario on kind and, where the two must agree, on the embedded cluster; a difference is a failure.
    async fn on_both(
        &self,
        cluster: &KindCluster,
        scenario: &Scenario,
        way: Scheduling,
    ) -> anyhow::Result<Finished> {
        let on_kind = async {
            let began = Timestamp::now();
            let stage = Stage::set(cluster, scenario, way).await.context("preparing the nodes")?;
            let mut finished = run::run(&stage, scenario).await;
            // An API server that was restarted refuses everybody for a moment: it does not know the roles yet.
            if let (Ok(finished), Tier::Placement) = (&mut finished, scenario.tier) {
                let refused = cluster.refused_rights(began).await;
                finished.failures.extend(
                    refused.unwrap_or_else(|error| vec![format!("looking for refused rights: {error:#}")]),
                );
            }
            // Evidence of a failure is in what is still there.
            if finished.as_ref().is_ok_and(|finished| finished.failures.is_empty()) {
                stage.down().await.context("clearing the nodes")?;
            } else if let Err(error) = stage.restart_stopped().await {
                let also = format!("starting what was stopped: {error:#}");
                finished = match finished {
                    Ok(mut finished) => {
                        finished.failures.push(also);
                        Ok(finished)
                    }
                    Err(first) => Err(first.context(also)),
                };
            }
            finished
        };
        if scenario.invariants_only.is_some() || scenario.only.is_some() {
            return on_kind.await;
        }
        let (finished, embedded) = tokio::join!(on_kind, self.on_embedded(scenario));
        let mut finished = finished?;
        let embedded = embedded.context("on the embedded cluster")?;
        let texts = cluster.scheduler_texts().await?;
        finished.failures.extend(compare::difference(embedded, &finished.outcome, texts)?);
        Ok(finished)
    }

    /// What comes of the scenario there, however it is scheduled here.
    async fn on_embedded(&self, scenario: &Scenario) -> anyhow::Result<&Outcome> {
        let place = self.scenarios.iter().position(|other| other.name == scenario.name);
        let cell = place.and_then(|place| self.embedded.get(place)).context("not one of this run")?;
        let outcome = async || {
            let finished = embedded::run(scenario, embedded::Options::default()).await?;
            anyhow::Ok(finished.outcome)
        };
        cell.get_or_try_init(outcome).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended(result: anyhow::Result<()>, left: anyhow::Result<Vec<String>>) -> String {
        let ended = with_nothing_left(result, async { left }).await;
        ended.map_or_else(|error| format!("{error:#}"), |()| "well".to_owned())
    }

    #[tokio::test]
    async fn what_stayed_behind_is_told_however_the_work_ended() {
        let node = || Ok(vec!["container a".to_owned(), "volume b".to_owned()]);
        assert_eq!(ended(Ok(()), Ok(Vec::new())).await, "well");
        assert_eq!(ended(Ok(()), node()).await, "left behind: container a, volume b");
        assert_eq!(ended(Err(anyhow!("interrupted")), Ok(Vec::new())).await, "interrupted");
        assert_eq!(
            ended(Err(anyhow!("interrupted")), node()).await,
            "left behind: container a, volume b: interrupted"
        );
    }
}
