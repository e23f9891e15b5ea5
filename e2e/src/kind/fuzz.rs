//! Random scenarios on kind: most run there and embedded, and what came of them must be equal; of the others, where
//! much goes by chance, the invariants must hold. Called by the command line.

use std::collections::BTreeMap;

use anyhow::bail;
use kind_driver::evidence;
use neuron_e2e_engine::fuzz::plan::Plan;
use neuron_e2e_engine::fuzz::{Fuzz, Row, check, comparable, generate, keep, shrink};
use neuron_e2e_engine::scenario::{CatalogSource, Scenario};

use super::session::{self, Session};
use super::{ImageSource, Options, Scheduling};

/// Smaller plans that are tried of one that fails: each takes as long as a session on a cluster that stands.
const ATTEMPTS: usize = 12;

/// What came of the random scenarios.
pub enum OnKind {
    /// They were run.
    Ran {
        /// One row a seed, in order, of those that a cluster could be prepared for.
        rows: Vec<Row>,
        /// Why no cluster could be prepared, for each remaining seed.
        not_prepared: Vec<String>,
    },
    /// This machine lacks something; what, and what to do about it.
    Skipped(String),
}

/// What came of one plan, with all schedulers.
#[derive(Debug, Default)]
struct PlanResult {
    failures: Vec<String>,
    not_prepared: Option<String>,
    /// Wall time in seconds, of all schedulers together.
    seconds: f64,
}

/// Runs the random scenarios on at most so many kind clusters with every scheduler. `jobs` and `kubernetes` mean nothing
/// here: one scenario has a cluster at a time, and the embedded one follows its version.
///
/// # Errors
/// A signal ended it, a cluster could not be had, or something stayed behind.
pub async fn run(
    fuzz: &Fuzz,
    schedulings: &[Scheduling],
    options: Options,
    clusters: usize,
) -> anyhow::Result<OnKind> {
    let plans: Vec<Plan> =
        (0..fuzz.count).map(|place| plan(fuzz.seed.wrapping_add(place), &fuzz.catalog)).collect();
    let results = match session_of(&plans, schedulings, options.clone(), clusters).await? {
        Ok(results) => results,
        Err(why) => return Ok(OnKind::Skipped(why)),
    };
    let not_prepared = |plan: &Plan| {
        let why = results.get(&plan.name())?.not_prepared.as_ref()?;
        Some(format!("seed {}: no cluster could be prepared: {why}", plan.seed))
    };
    let not_prepared: Vec<String> = plans.iter().filter_map(not_prepared).collect();
    let has_failed = results.values().any(|result| !result.failures.is_empty());
    // What was built once is not built again.
    let images = match &options.images {
        ImageSource::Archive(file) => ImageSource::Archive(file.clone()),
        ImageSource::Docker | ImageSource::Checkout(_) | ImageSource::Newest => ImageSource::Docker,
    };
    // Smaller plans are tried on clusters that stay until all is done.
    let standing = Options { keep: true, images, ..options.clone() };
    let rows = rows(fuzz, plans, results, async |plan: &Plan| {
        match session_of(std::slice::from_ref(plan), schedulings, standing.clone(), clusters).await? {
            Ok(mut results) => Ok(results.remove(&plan.name()).unwrap_or_default().failures),
            Err(why) => bail!("{why}"),
        }
    })
    .await;
    let rows = if has_failed && !options.keep { session::cleared(rows, &options).await } else { rows };
    rows.map(|rows| OnKind::Ran { rows, not_prepared })
}

/// One row a plan that a cluster could be prepared for, of those that failed the smallest that still does. `again` says
/// what is wrong with a smaller plan; its error, such as a signal's, ends the search, and is given when what was found so
/// far is kept.
async fn rows(
    fuzz: &Fuzz,
    plans: Vec<Plan>,
    mut results: BTreeMap<String, PlanResult>,
    mut again: impl AsyncFnMut(&Plan) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for plan in plans {
        let compared = comparable::why_not(&plan).is_none();
        let result = results.remove(&plan.name()).unwrap_or_default();
        if result.not_prepared.is_some() {
            continue;
        }
        let (seed, seconds, wrong) = (plan.seed, result.seconds, result.failures);
        let mut row = Row {
            seed,
            passed: wrong.is_empty(),
            compared,
            adversarial: false,
            failures: Vec::new(),
            file: None,
            seconds,
        };
        if !row.passed {
            let mut ended = None;
            let smaller = async |plan: &Plan| {
                if ended.is_some() {
                    return Vec::new();
                }
                match again(plan).await {
                    Ok(now) if shrink::are_alike(&wrong, &now) => now,
                    Ok(_) => Vec::new(),
                    Err(error) => {
                        ended = Some(error);
                        Vec::new()
                    }
                }
            };
            let (plan, wrong) = shrink::shrink(plan, wrong.clone(), ATTEMPTS, smaller).await;
            let about = format!("Seed {seed} on kind: {}", wrong.join("; "));
            let file = keep(&fuzz.keep_failures, &plan, &about)?;
            if let Some(error) = ended {
                return Err(error.context(format!("seed {seed} failed and is kept as {}", file.display())));
            }
            row.file = Some(file);
            row.failures = wrong;
        }
        rows.push(row);
    }
    Ok(rows)
}

/// The plan of a seed: of every fifth one that leaves as much to chance as it likes.
fn plan(seed: u64, catalog: &CatalogSource) -> Plan {
    if seed.is_multiple_of(5) { generate::plan(seed, catalog) } else { comparable::plan(seed, catalog) }
}

/// What came of each plan, by its name, or what this machine lacks.
async fn session_of(
    plans: &[Plan],
    schedulings: &[Scheduling],
    options: Options,
    clusters: usize,
) -> anyhow::Result<Result<BTreeMap<String, PlanResult>, String>> {
    let scenarios: Vec<Scenario> = plans.iter().map(Plan::scenario).collect::<Result<_, _>>()?;
    let rows = match session::run(&scenarios, schedulings, options, clusters).await? {
        Session::Skipped(why) => return Ok(Err(why)),
        Session::Ran(rows) => rows,
    };
    let mut results: BTreeMap<String, PlanResult> = BTreeMap::new();
    for row in rows {
        let plan = plans.iter().find(|plan| plan.name() == row.scenario);
        let mut failures = row.failures;
        // A pointer to evidence is no failure of its own.
        failures.retain(|text| !evidence::is_pointer(text));
        if let (Some(plan), Some(outcome)) = (plan, &row.outcome) {
            failures.extend(check::not_admitted(plan, plan.actions.len(), outcome));
        }
        let cluster = row.cluster.unwrap_or_default();
        let result = results.entry(row.scenario).or_default();
        result.seconds += row.seconds;
        result.failures.extend(failures.into_iter().map(|text| format!("{cluster}: {text}")));
        result.not_prepared = result.not_prepared.take().or(row.not_prepared);
    }
    Ok(Ok(results))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use neuron_e2e_engine::embedded::Version;

    use super::*;

    fn one_seed(folder: &Path) -> Fuzz {
        let (catalog, kubernetes) = (CatalogSource::default(), Version::default());
        Fuzz { seed: 1, count: 1, jobs: 1, keep_failures: folder.to_owned(), catalog, kubernetes }
    }

    #[tokio::test]
    async fn a_signal_ends_the_search_and_what_was_found_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let fuzz = one_seed(folder.path());
        let plan = plan(1, &fuzz.catalog);
        let failures = vec!["kind: pod a is lost".to_owned()];
        let results = BTreeMap::from([(plan.name(), PlanResult { failures, ..PlanResult::default() })]);
        let mut asked = 0;
        let again = async |_: &Plan| {
            asked += 1;
            bail!("interrupted")
        };
        let error = rows(&fuzz, vec![plan.clone()], results, again).await.unwrap_err();
        let file = folder.path().join(format!("{}.yaml", plan.name()));
        assert_eq!(
            format!("{error:#}"),
            format!("seed 1 failed and is kept as {}: interrupted", file.display())
        );
        assert!(file.exists());
        assert_eq!(asked, 1);
    }

    #[tokio::test]
    async fn a_plan_that_no_cluster_could_be_prepared_for_is_not_made_smaller() {
        let folder = tempfile::tempdir().unwrap();
        let fuzz = one_seed(folder.path());
        let plan = plan(1, &fuzz.catalog);
        let not_prepared = Some("waited 120 s for node w1".to_owned());
        let results = BTreeMap::from([(plan.name(), PlanResult { not_prepared, ..PlanResult::default() })]);
        let again = async |_: &Plan| bail!("nothing is to be tried");
        assert_eq!(rows(&fuzz, vec![plan], results, again).await.unwrap().len(), 0);
    }
}
