//! Random scenarios on kind: most run there and embedded, and what came of them must be equal; of the others, where
//! much goes by chance, the invariants must hold. Called by the command line.

use std::collections::BTreeMap;

use super::{Fuzz, Row, comparable, generate, judge, keep, plan::Plan, shrink};
use crate::kind::session::{self, Session};
use crate::kind::{Options, Scheduling};
use crate::scenario::Scenario;

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
/// one scenario has a cluster at a time.
pub async fn run(
    fuzz: &Fuzz,
    ways: &[Scheduling],
    options: Options,
    clusters: usize,
) -> anyhow::Result<OnKind> {
    let plans: Vec<Plan> = (0..fuzz.count).map(|place| plan(fuzz.seed.wrapping_add(place))).collect();
    let (mut failures, mut seconds) = match session_of(&plans, ways, options.clone(), clusters).await? {
        Ok(told) => told,
        Err(why) => return Ok(OnKind::Skipped(why)),
    };
    // Smaller ones are tried on clusters that stay; the last session, which shows them once more, deletes them.
    let standing = Options { keep: true, skip_images: true, ..options.clone() };
    let mut rows = Vec::new();
    let mut shrunk = Vec::new();
    for plan in plans {
        let compared = comparable::why_not(&plan).is_none();
        let (seed, seconds) = (plan.seed, seconds.remove(&plan.name()).unwrap_or_default());
        let wrong = failures.remove(&plan.name()).unwrap_or_default();
        let mut row =
            Row { seed, passed: wrong.is_empty(), compared, failures: Vec::new(), file: None, seconds };
        if !row.passed {
            let again = async |plan: &Plan| {
                let plans = std::slice::from_ref(plan);
                match session_of(plans, ways, standing.clone(), clusters).await {
                    Ok(Ok((mut failures, _))) => failures.remove(&plan.name()).unwrap_or_default(),
                    // Nothing was shown: not a smaller failure.
                    Ok(Err(_)) | Err(_) => Vec::new(),
                }
            };
            let (plan, wrong) = shrink::shrink(plan, wrong, ATTEMPTS, again).await;
            let about = format!("Seed {seed} on kind: {}", wrong.join("; "));
            row.file = Some(keep(&fuzz.keep_failures, &plan, &about)?);
            row.failures = wrong;
            shrunk.push(plan);
        }
        rows.push(row);
    }
    if !shrunk.is_empty() {
        // Whatever it shows, the failures are told already.
        let _shown = session_of(&shrunk, ways, options, clusters).await?;
    }
    Ok(OnKind::Ran(rows))
}

/// The plan of a seed: of every fifth one that leaves as much to chance as it likes.
fn plan(seed: u64) -> Plan {
    if seed.is_multiple_of(5) { generate::plan(seed) } else { comparable::plan(seed) }
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
        if let (Some(plan), Some(outcome)) = (plan, &row.outcome) {
            wrong.extend(judge::not_admitted(plan, plan.actions.len(), outcome));
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
