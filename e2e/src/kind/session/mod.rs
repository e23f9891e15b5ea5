//! A run on kind from beginning to end: what it needs, the clusters, every scenario on both kinds, nothing left.

mod both;
mod clusters;
mod jobs;

use std::collections::BTreeSet;
use std::sync::PoisonError;

use anyhow::Context as _;
use kind_driver::{Pool, unless_ended, with_nothing_left};
use neuron_e2e_engine::scenario::Scenario;

use super::{OWNER, Options, Scheduling, needs};
use crate::report::Row;
use clusters::Running;
use jobs::Jobs;

/// What came of a run.
pub enum Session {
    /// Every scenario was run, once for each scheduler: those of the first one in order, then the next one's.
    Ran(Vec<Row>),
    /// This machine lacks something; what, and what to do about it.
    Skipped(String),
}

/// Runs the scenarios with every scheduler, on at most so many clusters side by side; these are gone afterwards unless
/// they are to be kept. `options` tell how the first is made; how many workers each has follows from the scenarios.
///
/// # Errors
/// A signal ended it, a cluster could not be had, or something stayed behind.
pub async fn run(
    scenarios: &[Scenario],
    schedulings: &[Scheduling],
    options: Options,
    clusters: usize,
) -> anyhow::Result<Session> {
    let jobs = Jobs::new(scenarios, schedulings);
    let sizes = jobs.sizes(clusters);
    let pool = Pool::new(OWNER, &options.name, sizes.len());
    // Those that an earlier run kept have their memory already.
    let standing = if options.keep { pool.standing().await } else { 0 };
    let missing = needs::missing(options.node_image.as_deref(), &options.images, sizes.len() - standing);
    if let Some(why) = missing.await {
        return Ok(Session::Skipped(why));
    }
    let running = Running::new(jobs, scenarios);
    let mut rows = unless_ended(running.all(&pool, &sizes, &options)).await;
    if !options.keep {
        let volumes = running.volumes.into_inner().unwrap_or_else(PoisonError::into_inner);
        rows = with_nothing_left(rows, pool.left_behind(&volumes)).await;
    }
    let mut rows = rows?;
    running.phases.report();
    rows.sort_by_key(|(place, _)| *place);
    Ok(Session::Ran(rows.into_iter().map(|(_, row)| row).collect()))
}

/// The result of work that is over, its kept clusters deleted.
///
/// # Errors
/// The work's own, or something of the clusters stayed behind.
pub(super) async fn cleared<T>(result: anyhow::Result<T>, options: &Options) -> anyhow::Result<T> {
    let pool = Pool::new(OWNER, &options.name, 1);
    let left = async {
        pool.clear().await.context("deleting what was kept")?;
        pool.left_behind(&BTreeSet::new()).await
    };
    with_nothing_left(result, left).await
}
