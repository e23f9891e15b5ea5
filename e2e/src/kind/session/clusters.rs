//! The clusters of a run at work: each takes jobs while there are any for it, and is replaced where it cannot be prepared.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use futures::future::try_join_all;
use kind_driver::Pool;
use kind_driver::phases::Phases;
use neuron_e2e_engine::run::Finished;
use neuron_e2e_engine::scenario::Scenario;
use tokio::time::Instant;

use super::both::OnEmbedded;
use super::jobs::{Job, Jobs};
use crate::kind::images::Images;
use crate::kind::stage::Stage;
use crate::kind::{KindCluster, Options, Scheduling};
use crate::report::{Row, print};

/// Jobs in a row for which a cluster could not be prepared, after which it takes no more: each costs minutes of waiting.
const GIVES_UP_AFTER: u32 = 2;

/// What the clusters of one run share.
pub(super) struct Running<'s> {
    jobs: Jobs<'s>,
    pub(super) phases: Phases,
    embedded: OnEmbedded<'s>,
    /// Whether a scenario has come to its end.
    placed: AtomicBool,
    /// What Docker made for the nodes.
    pub(super) volumes: Mutex<BTreeSet<String>>,
}

/// One cluster of a run.
struct Member<'r> {
    cluster: KindCluster,
    options: Options,
    images: &'r Images,
    /// Jobs in a row that it could not be prepared for since it was made anew.
    in_vain: u32,
}

impl<'s> Running<'s> {
    /// A run with no job done.
    pub(super) fn new(jobs: Jobs<'s>, scenarios: &'s [Scenario]) -> Self {
        Self {
            jobs,
            phases: Phases::begin(),
            embedded: OnEmbedded::of(scenarios),
            placed: AtomicBool::new(false),
            volumes: Mutex::default(),
        }
    }

    /// Every job, on every cluster of the pool, of which each has so many workers; rows with their places.
    pub(super) async fn all(
        &self,
        pool: &Pool,
        sizes: &[usize],
        options: &Options,
    ) -> anyhow::Result<Vec<(usize, Row)>> {
        let began = Instant::now();
        let images = options.images.ready().await?;
        self.phases.done("images", began);
        if !options.keep {
            pool.clear().await?;
        }
        let members = pool.names().iter().zip(sizes).enumerate();
        let rows =
            try_join_all(members.map(|(place, (name, workers))| {
                let options = Options { name: name.clone(), workers: *workers, ..options.clone() };
                let images = &images;
                async move {
                    self.on_cluster(place, options, images).await.with_context(|| format!("cluster {name}"))
                }
            }));
        let rows = rows.await?.into_iter().flatten();
        Ok(rows.chain(self.jobs.rest().iter().map(not_tried)).collect())
    }

    /// One cluster, from its making to its end.
    async fn on_cluster(
        &self,
        place: usize,
        options: Options,
        images: &Images,
    ) -> anyhow::Result<Vec<(usize, Row)>> {
        let cluster = self.up(&options, images).await?;
        let mut member = Member { cluster, options, images, in_vain: 0 };
        let mut rows = self.serve(&mut member, place).await?;
        if let Some((_, last)) = rows.last_mut().filter(|_| place == 0 && member.in_vain < GIVES_UP_AFTER) {
            last.add_failures(checked(&member.cluster).await);
        }
        let (name, began) = (member.cluster.name().to_owned(), Instant::now());
        let is_deleted = !member.options.keep;
        member.cluster.down().await?;
        if is_deleted {
            self.phases.done(format!("{name}: deleted"), began);
        }
        Ok(rows)
    }

    async fn up(&self, options: &Options, images: &Images) -> anyhow::Result<KindCluster> {
        let cluster = KindCluster::up(options, images, &self.phases).await?;
        let made = cluster.driver().volumes().await?;
        self.volumes.lock().unwrap_or_else(PoisonError::into_inner).extend(made);
        Ok(cluster)
    }

    /// The cluster at this place takes jobs while there are any for it.
    async fn serve(&self, member: &mut Member<'_>, place: usize) -> anyhow::Result<Vec<(usize, Row)>> {
        let mut rows = Vec::new();
        let mut began = Instant::now();
        let mut since: Option<(Scheduling, usize)> = None;
        let name = member.options.name.clone();
        let done = |(scheduling, count): (Scheduling, usize), began| {
            self.phases
                .done(format!("{name}: {count} scenarios with {}", scheduling.scheduler_name()), began);
        };
        while let Some(job) = self.jobs.take(place, member.options.workers) {
            if let Some(why) = refused(&member.cluster, job.scenario)? {
                print::progress(format_args!("skipped           {}: {why}", job.scenario.name));
                continue;
            }
            if let Some(ended) = since.filter(|(scheduling, _)| *scheduling != job.scheduling) {
                done(ended, began);
                (since, began) = (None, Instant::now());
            }
            rows.push((job.place, self.job(member, &job).await?));
            since = Some((job.scheduling, since.map_or(0, |(_, count)| count) + 1));
            if member.in_vain == GIVES_UP_AFTER {
                print::progress(format_args!(
                    "cluster {name} takes no more scenarios: it cannot be prepared"
                ));
                break;
            }
        }
        if let Some(ended) = since {
            done(ended, began);
        }
        Ok(rows)
    }

    async fn job(&self, member: &mut Member<'_>, job: &Job<'_>) -> anyhow::Result<Row> {
        let began = Instant::now();
        let seconds = || began.elapsed().as_secs_f64();
        let mut row = match self.carried_out(member, job).await? {
            Ok(result) => Row::new(job.scenario, result, seconds()),
            Err(why) => Row::not_prepared(job.scenario, format!("{why:#}"), seconds()),
        };
        row.cluster = Some(kind(job));
        row.kubernetes = Some(member.cluster.release().to_owned());
        if !self.placed.swap(true, Ordering::Relaxed) {
            self.phases.reached(format!("until the first scenario, {}, was over", job.scenario.name));
        }
        if row.failed() {
            row.failures.push(member.cluster.evidence(&of(job)).await);
        }
        report(&member.options.name, job, &row);
        Ok(row)
    }

    /// What came of the scenario on a cluster that was prepared for it, or why none could be. The outer error is that of a
    /// cluster that cannot be made.
    async fn carried_out(
        &self,
        member: &mut Member<'_>,
        job: &Job<'_>,
    ) -> anyhow::Result<Result<anyhow::Result<Finished>, anyhow::Error>> {
        let why = match self.on_stage(member, job).await {
            Ok(result) => return Ok(Ok(result)),
            Err(why) => why,
        };
        if member.in_vain > 0 {
            member.in_vain += 1;
            return Ok(Err(why));
        }
        print::progress(format_args!("replacing cluster {}: {why:#}", member.options.name));
        self.replace(member).await?;
        let again = self.on_stage(member, job).await;
        member.in_vain += u32::from(again.is_err());
        Ok(again)
    }

    /// What came of the scenario, or why the cluster could not be prepared for it.
    async fn on_stage(
        &self,
        member: &mut Member<'_>,
        job: &Job<'_>,
    ) -> Result<anyhow::Result<Finished>, anyhow::Error> {
        match Stage::set(&member.cluster, job.scenario, job.scheduling).await {
            Ok(stage) => {
                member.in_vain = 0;
                Ok(self.embedded.compared(&member.cluster, stage, job).await)
            }
            Err(why) => Err(member.cluster.with_evidence(&of(job), why).await),
        }
    }

    async fn replace(&self, member: &mut Member<'_>) -> anyhow::Result<()> {
        member.cluster.discard().await?;
        let cluster = self.up(&member.options, member.images).await;
        member.cluster = cluster.context("making the cluster anew")?;
        Ok(())
    }
}

/// What is wrong with the parts that are looked at once in a run, after its scenarios.
async fn checked(cluster: &KindCluster) -> Vec<String> {
    let (plugin, extender, agent) = tokio::join!(
        cluster.holds_plugin_to_its_node(),
        cluster.holds_extender_to_its_replicas(),
        cluster.tells_pods_of_its_agent()
    );
    // It has the plugin's pods replaced, whose rights were looked at.
    let handover = cluster.waits_for_processes().await;
    let published = cluster.logs_published_lines().await;
    let checks = [
        ("the rights of the device plugin", plugin),
        ("the rights of the extender", extender),
        ("the end of the agent that answers ioctls", agent),
        ("the device of a pod deleted by force", handover),
        ("the published checks of logs", published),
    ];
    let failed = checks.into_iter().filter_map(|(what, came_to)| Some((what, came_to.err()?)));
    let mut failures: Vec<String> =
        failed.map(|(what, error)| format!("{what}, tried after this scenario: {error:#}")).collect();
    if !failures.is_empty() {
        failures.iter().for_each(print::progress);
        failures.push(cluster.evidence("checks").await);
    }
    failures
}

/// Why the cluster's release of Kubernetes cannot run the scenario; `None` if it can.
fn refused(cluster: &KindCluster, scenario: &Scenario) -> anyhow::Result<Option<String>> {
    let Some(only) = scenario.only.as_ref().filter(|only| only.since.is_some()) else { return Ok(None) };
    Ok(only.refuses(cluster.release().parse()?))
}

/// The row of a job that was left when every cluster for it had given up.
fn not_tried(job: &Job<'_>) -> (usize, Row) {
    let why = "not tried: no cluster could be prepared any more".to_owned();
    let mut row = Row::not_prepared(job.scenario, why, 0.0);
    row.cluster = Some(kind(job));
    (job.place, row)
}

/// Where a job ran or was to run, as the table says it.
fn kind(job: &Job<'_>) -> String {
    format!("kind, {}", job.scheduling.scheduler_name())
}

/// What evidence of a job is called.
fn of(job: &Job<'_>) -> String {
    format!("{}-{}", job.scenario.name, job.scheduling.scheduler_name())
}

/// One call: other clusters' lines must not come in between.
fn report(cluster: &str, job: &Job<'_>, row: &Row) {
    let lines: String = row.wrong().map(|line| format!("\n{line}")).collect();
    print::progress(format_args!(
        "{} {:6.2} s  {cluster:12}  {:17}  {}{lines}",
        row.word(),
        row.seconds,
        job.scheduling.scheduler_name(),
        row.scenario
    ));
}
