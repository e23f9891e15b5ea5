//! Random scenarios on kind: most run there and embedded, and what came of them must be equal; of the others, where
//! much goes by chance, the invariants must hold. Called by the command line.

use std::collections::BTreeMap;

use anyhow::bail;

use super::session::{self, Session};
use super::{Options, Scheduling, evidence};
use neuron_e2e_engine::fuzz::plan::Plan;
use neuron_e2e_engine::fuzz::{Fuzz, Row, check, comparable, generate, keep, shrink};
use neuron_e2e_engine::scenario::{CatalogSource, Scenario};

/// Smaller plans that are tried of one that fails: each takes as long as a session on a cluster that stands.
const ATTEMPTS: usize = 12;

/// What came of the random scenarios.
pub enum OnKind {
    /// One row a seed, in order.
    Ran(Vec<Row>),
    /// This machine lacks something; what, and what to do about it.
    Skipped(String),
}

/// Runs the random scenarios on at most so many kind clusters in every way of scheduling. `jobs` means nothing here:
/// one scenario has a cluster at a time. An error where a signal ended it; nothing stays then either.
pub async fn run(
    fuzz: &Fuzz,
    ways: &[Scheduling],
    options: Options,
    clusters: usize,
) -> anyhow::Result<OnKind> {
    let plans: Vec<Plan> =
        (0..fuzz.count).map(|place| plan(fuzz.seed.wrapping_add(place), &fuzz.catalog)).collect();
    let told = match session_of(&plans, ways, options.clone(), clusters).await? {
        Ok(told) => told,
        Err(why) => return Ok(OnKind::Skipped(why)),
    };
    let has_failed = told.0.values().any(|wrong| !wrong.is_empty());
    // Smaller plans are tried on clusters that stay until all is told.
    let standing = Options { keep: true, skip_images: true, ..options.clone() };
    let rows = rows(fuzz, plans, told, async |plan: &Plan| {
        match session_of(std::slice::from_ref(plan), ways, standing.clone(), clusters).await? {
            Ok((mut failures, _)) => Ok(failures.remove(&plan.name()).unwrap_or_default()),
            Err(why) => bail!("{why}"),
        }
    })
    .await;
    if has_failed && !options.keep {
        return session::cleared(rows, &options).await.map(OnKind::Ran);
    }
    rows.map(OnKind::Ran)
}

/// One row a plan, of those that failed the smallest that still does. `again` says what is wrong with a smaller plan;
/// its error, such as a signal's, ends the search, and is given when what was found so far is kept.
async fn rows(
    fuzz: &Fuzz,
    plans: Vec<Plan>,
    (mut failures, mut seconds): Told,
    mut again: impl AsyncFnMut(&Plan) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for plan in plans {
        let compared = comparable::why_not(&plan).is_none();
        let (seed, seconds) = (plan.seed, seconds.remove(&plan.name()).unwrap_or_default());
        let wrong = failures.remove(&plan.name()).unwrap_or_default();
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

/// Failures and seconds by the plan's name.
type Told = (BTreeMap<String, Vec<String>>, BTreeMap<String, f64>);

async fn session_of(
    plans: &[Plan],
    ways: &[Scheduling],
    options: Options,
    clusters: usize,
) -> anyhow::Result<Result<Told, String>> {
    let scenarios: Vec<Scenario> = plans.iter().map(Plan::scenario).collect::<Result<_, _>>()?;
    let rows = match session::run(&scenarios, ways, options, clusters).await? {
        Session::Skipped(why) => return Ok(Err(why)),
        Session::Ran(rows) => rows,
    };
    let (mut failures, mut seconds) = Told::default();
    for row in rows {
        let plan = plans.iter().find(|plan| plan.name() == row.scenario);
        let mut wrong = row.failures;
        // Where to look is no failure of a kind.
        wrong.retain(|text| !evidence::is_pointer(text));
        if let (Some(plan), Some(outcome)) = (plan, &row.outcome) {
            wrong.extend(check::not_admitted(plan, plan.actions.len(), outcome));
        }
        *seconds.entry(row.scenario.clone()).or_default() += row.seconds;
        let cluster = row.cluster.unwrap_or_default();
        failures
            .entry(row.scenario)
            .or_default()
            .extend(wrong.into_iter().map(|text| format!("{cluster}: {text}")));
    }
    Ok(Ok((failures, seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_ends_the_search_and_what_was_found_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = CatalogSource::default();
        let fuzz = Fuzz { seed: 1, count: 1, jobs: 1, keep_failures: folder.path().to_owned(), catalog };
        let plan = plan(1, &fuzz.catalog);
        let failures = BTreeMap::from([(plan.name(), vec!["kind: pod a is lost".to_owned()])]);
        let mut asked = 0;
        let again = async |_: &Plan| {
            asked += 1;
            bail!("interrupted")
        };
        let error = rows(&fuzz, vec![plan.clone()], (failures, BTreeMap::new()), again).await.unwrap_err();
        let file = folder.path().join(format!("{}.yaml", plan.name()));
        assert_eq!(
            format!("{error:#}"),
            format!("seed 1 failed and is kept as {}: interrupted", file.display())
        );
        assert!(file.exists());
        assert_eq!(asked, 1);
    }
}
