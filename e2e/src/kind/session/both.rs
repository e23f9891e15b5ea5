//! A scenario on kind and on the embedded cluster, whose outcomes must be equal.

use std::collections::BTreeMap;

use anyhow::Context as _;
use jiff::Timestamp;
use neuron_e2e_engine::cluster::Cluster as _;
use neuron_e2e_engine::embedded::{self, Version};
use neuron_e2e_engine::outcome::{Outcome, compare};
use neuron_e2e_engine::run::{self, Finished};
use neuron_e2e_engine::scenario::{Scenario, Tier};
use tokio::sync::OnceCell;

use super::jobs::Job;
use crate::kind::KindCluster;
use crate::kind::stage::Stage;

/// What comes of each scenario on the embedded cluster of each version, run when it is first asked for.
pub(super) struct OnEmbedded<'s> {
    scenarios: &'s [Scenario],
    outcomes: Vec<BTreeMap<Version, OnceCell<Outcome>>>,
}

impl<'s> OnEmbedded<'s> {
    /// The scenarios to run, none run yet.
    pub(super) fn of(scenarios: &'s [Scenario]) -> Self {
        let cells = || Version::ALL.map(|version| (version, OnceCell::new())).into();
        Self { scenarios, outcomes: scenarios.iter().map(|_| cells()).collect() }
    }

    /// What came of the scenario on this stage; where both clusters must agree, with what they differ in as failures.
    pub(super) async fn compared(
        &self,
        cluster: &KindCluster,
        stage: Stage<'_>,
        job: &Job<'_>,
    ) -> anyhow::Result<Finished> {
        let scenario = job.scenario;
        let on_kind = on_kind(cluster, stage, scenario);
        if scenario.invariants_only.is_some() || scenario.only.is_some() {
            return on_kind.await;
        }
        let version = cluster.embedded_version()?;
        let (finished, embedded) = tokio::join!(on_kind, self.outcome(scenario, version));
        let mut finished = finished?;
        let embedded =
            embedded.with_context(|| format!("on the embedded cluster of Kubernetes {version}"))?;
        let texts = cluster.scheduler_texts();
        finished.failures.extend(compare::difference(embedded, &finished.outcome, texts)?);
        Ok(finished)
    }

    /// What comes of the scenario there, however it is scheduled here.
    async fn outcome(&self, scenario: &Scenario, version: Version) -> anyhow::Result<&Outcome> {
        let place = self.scenarios.iter().position(|other| other.name == scenario.name);
        let cells = place.and_then(|place| self.outcomes.get(place));
        let cell = cells.and_then(|cells| cells.get(&version)).context("not one of this run")?;
        let outcome = async || {
            let options = embedded::Options { kubernetes: version, ..embedded::Options::default() };
            let finished = embedded::run(scenario, options).await?;
            anyhow::Ok(finished.outcome)
        };
        cell.get_or_try_init(outcome).await
    }
}

async fn on_kind(cluster: &KindCluster, stage: Stage<'_>, scenario: &Scenario) -> anyhow::Result<Finished> {
    let began = Timestamp::now();
    let mut finished = run::run(&stage, scenario).await;
    // An API server that was restarted refuses everybody for a moment: it does not know the roles yet.
    if let (Ok(finished), Tier::Placement) = (&mut finished, scenario.tier) {
        let refused = cluster.refused_rights(began).await;
        finished
            .failures
            .extend(refused.unwrap_or_else(|error| vec![format!("looking for refused rights: {error:#}")]));
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
}
