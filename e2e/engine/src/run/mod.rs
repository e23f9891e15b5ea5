//! Carries a scenario out on any [`Cluster`] and says what came of it. Called by the command line and the tests.
//!
//! [`run`] goes through the steps (`steps`; those that fall into the middle of others in `interleaved`, and `churn`), waits until what
//! there is to see holds still (`waits`), and collects the outcome ([`collect`]).

mod allocatable;
pub mod apply;
mod churn;
pub mod collect;
mod interleaved;
mod metrics;
mod objects;
mod pods;
mod probes;
mod reports;
mod steps;
mod waits;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use tokio::time::Instant;

use self::apply::Applier;
use self::metrics::Counted;
use self::objects::Created;
use self::reports::Reports;
use crate::cluster::wait::until;
use crate::cluster::{Cluster, NAMESPACE};
use crate::invariants::{Observed, violations};
use crate::outcome::{Outcome, PodOutcome, SchedulerTexts, expectations};
use crate::scenario::{Part, Scenario, Tier};

/// How long the outcome must hold still before it is taken: events are sent beside what they tell of, and may be the
/// last to come.
const UNCHANGED_FOR: Duration = Duration::from_millis(200);

/// What came of a scenario, and what of it should not have.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The outcome document.
    pub outcome: Outcome,
    /// What differs from the scenario's expectations or violates an invariant; empty if it passed.
    pub failures: Vec<String>,
}

/// Carries the steps out, then waits until the outcome is what it must be, or the cluster's timeout is over.
///
/// # Errors
/// A step could not be carried out, named with its place in the file, or nothing could be collected.
pub async fn run<C: Cluster>(cluster: &C, scenario: &Scenario) -> anyhow::Result<Finished> {
    let mut run = Run {
        cluster,
        scenario,
        gone: BTreeMap::new(),
        stopped: HashSet::new(),
        created: Vec::new(),
        logged: BTreeMap::new(),
        counted: Counted::new(),
        reports: Reports::default(),
    };
    let finished = run.carry_out().await;
    let removed = run.remove_objects().await;
    let mut finished = finished?;
    removed?;
    if scenario.tier == Tier::Faults && finished.failures.is_empty() {
        finished.failures = probes::failures(cluster, scenario, &finished.outcome).await?;
    }
    Ok(finished)
}

/// One scenario under way.
struct Run<'a, C> {
    cluster: &'a C,
    scenario: &'a Scenario,
    /// Pods that are no longer there, or never were: as they were last seen.
    gone: BTreeMap<String, PodOutcome>,
    /// Parts that a step has stopped, with the place of their node.
    stopped: HashSet<(Part, usize)>,
    /// Objects of the whole cluster that a step has created.
    created: Vec<Created>,
    /// Bytes of each node's kernel log before its last step `faults`.
    logged: BTreeMap<usize, usize>,
    counted: Counted,
    reports: Reports,
}

impl<C: Cluster> Run<'_, C> {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), NAMESPACE)
    }

    fn applier(&self) -> Applier<'_, C> {
        Applier::new(self.cluster, self.scenario)
    }

    /// Whether that part is stopped, on any node if it is one of nodes.
    fn is_stopped(&self, part: Part) -> bool {
        self.stopped.iter().any(|(other, _)| *other == part)
    }

    async fn carry_out(&mut self) -> anyhow::Result<Finished> {
        self.begin_counting().await?;
        for (place, step) in self.scenario.steps.iter().enumerate() {
            Box::pin(self.step(step))
                .await
                .with_context(|| format!("step {} ({})", place + 1, step.name()))?;
        }
        self.finish().await
    }

    /// Collects until the document is what it must be and no longer changes, or the timeout is over.
    async fn finish(&self) -> anyhow::Result<Finished> {
        let mut last: Option<Finished> = None;
        let mut unchanged_since = Instant::now();
        let mut is_done = async || {
            let mut outcome = collect::outcome(self.cluster, self.scenario, &self.reports).await?;
            outcome.pods.extend(self.gone.clone());
            outcome.order_interchangeable(&self.scenario.interchangeable);
            let observed = Observed { outcome: &outcome, history: &self.reports.history, probes: &[] };
            let failures = failures(self.scenario, observed, self.cluster.scheduler_texts());
            if last.as_ref().is_none_or(|last| last.outcome != outcome) {
                unchanged_since = Instant::now();
            }
            let done = failures.is_empty() && unchanged_since.elapsed() >= UNCHANGED_FOR;
            last = Some(Finished { outcome, failures });
            Ok(done)
        };
        let waited = until(self.cluster, "the outcome to be what the scenario expects", &mut is_done).await;
        match (last, waited) {
            // The failures say more than that the time is over.
            (Some(finished), _) if !finished.failures.is_empty() => Ok(finished),
            (Some(finished), Ok(())) => Ok(finished),
            (_, Err(error)) => Err(error),
            (None, Ok(())) => bail!("nothing was collected"),
        }
    }
}

/// Expectations that are not met and invariants that do not hold, one sentence each.
fn failures(scenario: &Scenario, observed: Observed, texts: SchedulerTexts) -> Vec<String> {
    let mut failures = expectations::unmet(scenario, observed.outcome, texts);
    failures.extend(violations(scenario, observed).iter().map(ToString::to_string));
    failures
}
