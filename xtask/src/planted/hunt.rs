//! Looks for one planted bug, seed after seed, or in its kept plan. Called by `cargo xtask planted`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Bug, simulate};

/// How to look.
pub(super) struct Hunt {
    pub(super) program: PathBuf,
    /// Where simulations keep the plans of what fails.
    pub(super) failures: PathBuf,
    /// Simulated time for each seed.
    pub(super) time: String,
    pub(super) nodes: String,
    pub(super) seeds: u64,
    /// Where the kept plans are.
    pub(super) plans: PathBuf,
    /// What each run shows without a bug: signatures.
    pub(super) unplanted: Mutex<BTreeMap<Run, Arc<OnceLock<BTreeSet<String>>>>>,
}

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Run {
    Seed(u64),
    /// A file among the kept plans.
    Plan(String),
}

/// What came of looking for a bug.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Found {
    pub(super) bug: String,
    /// The invariant that must find it.
    pub(super) invariant: String,
    /// What found it; none if nothing did.
    pub(super) signature: Option<String>,
    /// The seed that shows it; none if none of them does, or a kept plan must.
    pub(super) seed: Option<u64>,
    /// The kept plan that must show it.
    pub(super) plan: Option<String>,
    /// Simulated hours until it was found, over all seeds.
    pub(super) hours: f64,
    /// Real time, without that of the runs without the bug.
    pub(super) seconds: f64,
    /// What else ended a run before.
    pub(super) unrelated: BTreeSet<String>,
}

/// What a simulation tells.
#[derive(Deserialize)]
struct Summary {
    /// Simulated.
    seconds: u64,
    violations: BTreeMap<String, Seen>,
    /// The signatures that end a run.
    unknown: Vec<String>,
}

#[derive(Deserialize)]
struct Seen {
    /// Simulated milliseconds.
    first: u64,
}

impl Hunt {
    /// Looks for the bug.
    ///
    /// # Errors
    /// A simulation broke off.
    pub(super) fn look_for(&self, bug: &Bug) -> anyhow::Result<Found> {
        let mut found = Found {
            bug: bug.name.clone(),
            invariant: bug.invariant.clone(),
            signature: None,
            seed: None,
            plan: bug.plan.clone(),
            hours: 0.0,
            seconds: 0.0,
            unrelated: BTreeSet::new(),
        };
        let seeds = || (0..self.seeds).map(Run::Seed).collect();
        for run in bug.plan.clone().map_or_else(seeds, |plan| vec![Run::Plan(plan)]) {
            let began = Instant::now();
            let Summary { seconds, violations, unknown } = self.simulate(&run, Some(&bug.name))?;
            found.seconds += began.elapsed().as_secs_f64();
            let (of_bug, unrelated): (Vec<String>, Vec<String>) =
                unknown.into_iter().partition(|signature| is_of(signature, &bug.invariant));
            found.unrelated.extend(unrelated);
            let without = if of_bug.is_empty() { BTreeSet::new() } else { self.without_bug(&run)? };
            if let Some(signature) = of_bug.into_iter().find(|signature| !without.contains(signature)) {
                let milliseconds = violations.get(&signature).map_or(seconds * 1000, |seen| seen.first);
                found.hours += milliseconds as f64 / 3_600_000.0;
                found.signature = Some(signature);
                if let Run::Seed(seed) = run {
                    found.seed = Some(seed);
                }
                break;
            }
            found.hours += seconds as f64 / 3600.0;
        }
        Ok(found)
    }

    /// What the run shows without a bug. Two that ask at one time both wait for one run.
    fn without_bug(&self, run: &Run) -> anyhow::Result<BTreeSet<String>> {
        let shown = {
            let mut unplanted = self.unplanted.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(unplanted.entry(run.clone()).or_default())
        };
        if let Some(known) = shown.get() {
            return Ok(known.clone());
        }
        let signatures = self.simulate(run, None)?.violations.into_keys().collect();
        Ok(shown.get_or_init(|| signatures).clone())
    }

    fn simulate(&self, run: &Run, bug: Option<&str>) -> anyhow::Result<Summary> {
        let mut command = Command::new(&self.program);
        command.args(["simulate", "-o", "json", "--shrink-for", "0s"]);
        match run {
            Run::Seed(seed) => {
                command.args(["--profile", "chaos", "--seed", &seed.to_string()]);
                command.args(["--for", &self.time, "--nodes", &self.nodes]);
            }
            Run::Plan(plan) => drop(command.arg("--replay").arg(self.plans.join(plan))),
        }
        command.arg("--keep-failures").arg(self.failures.join(bug.unwrap_or("none")));
        command.args(bug.iter().flat_map(|bug| ["--planted", bug]));
        Ok(serde_json::from_value(simulate(&mut command)?)?)
    }
}

/// Whether it is the invariant's.
fn is_of(signature: &str, invariant: &str) -> bool {
    signature.strip_prefix(invariant).is_some_and(|rest| rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_of_the_invariant_that_it_begins_with() {
        assert!(is_of("liveness: a pod does not go", "liveness"));
        assert!(!is_of("liveness: a pod does not go", "live") && !is_of("panic: extender: x", "extender"));
    }
}
