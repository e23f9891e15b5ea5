//! What to do with a violation that nobody knows: the plan that shows it, as small as can be.

use std::sync::Arc;
use std::time::Duration;

use simulated_cluster::plan::{Listed, Plan};
use simulated_cluster::shrink::{Shrunk, shrink, written_down};
use simulated_cluster::{RunOptions, Seeded, Suite, Summary};

use crate::{Neuron, known};

/// Runs a plan with its own events.
///
/// # Errors
/// It asks for what cannot be, or the trace could not be written.
pub fn run_plan(plan: &Plan, options: RunOptions) -> anyhow::Result<Summary> {
    simulated_cluster::run(
        plan,
        Box::new(Listed::new(plan.events.clone())),
        Arc::new(Neuron::default()),
        options,
    )
}

/// The plan of a seed that failed, with what happened until then written down.
pub fn plan_of(seeded: &Seeded, until: Duration) -> Plan {
    let suite: Arc<dyn Suite> = Arc::new(Neuron::default());
    written_down(&seeded.plan(&*suite), &mut *seeded.source(&suite), until)
}

/// Makes a plan that shows `signature` smaller, for at most `time` of real time; each is run with `options` but for what is
/// known.
pub fn smaller(plan: Plan, signature: &str, time: Duration, options: impl Fn() -> RunOptions) -> Shrunk {
    // What is known does not end a run, but for what is looked for.
    let mut others = known().unwrap_or_default();
    others.retain(|known| !known.is(signature));
    shrink(plan, time, |plan| shows(plan, signature, RunOptions { known: others.clone(), ..options() }))
}

/// Whether a plan shows the violation.
pub fn shows(plan: &Plan, signature: &str, options: RunOptions) -> bool {
    run_plan(plan, options).is_ok_and(|summary| summary.violations.0.contains_key(signature))
}
