//! The simulation that an embedded cluster is: its thread, and what becomes of what went wrong there. Called by
//! [`super::run`](fn@super::run) and by whoever does something else on such a cluster.

use anyhow::{Context as _, anyhow, bail};
use simulator::Finished;
use testkit_support::pace;
use tokio::task::spawn_blocking;

use super::{Embedded, Options};
use crate::scenario::Scenario;

/// The context of an error by which a cluster could not be brought up: nothing is known of what was to be done on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bringing the embedded cluster up")]
pub struct NotUp;

/// Brings up an embedded cluster for the scenario and does the work on it: in the cluster's simulation, so nothing that the work
/// waits for may come from outside, and its time is simulated. Work that returns without taking the cluster down ends it as
/// it is.
///
/// # Errors
/// The cluster could not be brought up ([`NotUp`]), something panicked, the work's own.
pub async fn on_cluster<T: Send + 'static>(
    scenario: &Scenario,
    options: Options,
    work: impl AsyncFnOnce(Embedded) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let scenario = scenario.clone();
    let simulated = spawn_blocking(move || simulate(scenario, options, work));
    result_of(simulated.await.context("the thread of the embedded cluster has broken")?)
}

/// Waits, without being a task, for the simulation's end.
fn simulate<T: Send + 'static>(
    scenario: Scenario,
    options: Options,
    work: impl AsyncFnOnce(Embedded) -> anyhow::Result<T> + Send + 'static,
) -> Finished<anyhow::Result<T>> {
    simulator::run(simulator::Options::new(options.seed), async move |simulation| {
        pace::ignore_on_this_thread();
        work(Embedded::up(&simulation, &scenario, options).await.context(NotUp)?).await
    })
}

fn result_of<T>(finished: Finished<anyhow::Result<T>>) -> anyhow::Result<T> {
    if let Some(panic) = finished.panics.first() {
        bail!("{} panicked at {}: {}", panic.part, panic.location, panic.message);
    }
    if let Some(stuck) = finished.stuck {
        bail!(stuck);
    }
    finished.result.unwrap_or_else(|| Err(anyhow!("everything waits for what can never come")))
}
