//! Random scenarios: made of a seed ([`generate`], [`plan`]), run and judged ([`judge`]), made smaller where they fail
//! ([`shrink`]) and kept as scenario files. On kind ([`on_kind`]) they run on both clusters, and those whose outcome must
//! be the same ([`comparable`]) are compared. Called by the command line.

pub mod comparable;
pub mod generate;
pub mod judge;
pub mod plan;
pub mod shrink;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use serde::Serialize;
use tokio::time::Instant;

use crate::embedded::Options;
use plan::Plan;

/// Smaller plans that are tried of one that fails.
const ATTEMPTS: usize = 60;
/// How long a wait may take while a plan is made smaller.
const SHRINKING_PATIENCE: Duration = Duration::from_secs(15);

/// Which random scenarios are run.
#[derive(Clone, Debug)]
pub struct Fuzz {
    /// The first scenario's seed; the next ones have the next numbers.
    pub seed: u64,
    /// How many.
    pub count: u64,
    /// How many at the same time.
    pub jobs: usize,
    /// The folder for the files of those that fail.
    pub keep_failures: PathBuf,
}

/// What came of one random scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it was made from: `fuzz --seed N --count 1` on the same kind of cluster runs it again.
    pub seed: u64,
    /// Whether nothing was wrong.
    pub passed: bool,
    /// Whether its outcome on kind was compared with the embedded cluster's, and not only judged by the invariants.
    pub compared: bool,
    /// What was wrong, after the scenario was made smaller.
    pub failures: Vec<String>,
    /// The scenario file of what failed, made smaller.
    pub file: Option<PathBuf>,
    /// Wall time, in seconds.
    pub seconds: f64,
}

impl Row {
    /// The row as a line for people; with what was wrong and the file's path below where it failed.
    pub fn line(&self) -> String {
        let word = if self.passed { "passed" } else { "FAILED" };
        let mut lines = vec![format!("{word} {:6.2} s  seed {}", self.seconds, self.seed)];
        lines.extend(self.failures.iter().map(|text| format!("  {text}")));
        lines.extend(self.file.iter().map(|path| format!("  kept as {}", path.display())));
        lines.join("\n")
    }
}

/// Runs the random scenarios on the embedded cluster, each with kubelets that choose by the seed and with hostile
/// ones. Rows come in the order of their seeds; `progress` is told of each when it is done.
pub async fn on_embedded(fuzz: &Fuzz, progress: impl Fn(&Row)) -> anyhow::Result<Vec<Row>> {
    let seeds = (0..fuzz.count).map(|place| fuzz.seed.wrapping_add(place));
    let runs = futures::stream::iter(seeds).map(|seed| one(fuzz, seed)).buffer_unordered(fuzz.jobs.max(1));
    let mut rows = Vec::new();
    let mut runs = std::pin::pin!(runs);
    while let Some(row) = runs.next().await {
        let row = row?;
        progress(&row);
        rows.push(row);
    }
    rows.sort_by_key(|row: &Row| row.seed);
    Ok(rows)
}

async fn one(fuzz: &Fuzz, seed: u64) -> anyhow::Result<Row> {
    let began = Instant::now();
    let plan = generate::plan(seed);
    let mut row = Row { seed, passed: true, compared: false, failures: Vec::new(), file: None, seconds: 0.0 };
    for hostile in [false, true] {
        let options = Options { seed, hostile };
        let failures = judge::failures(&plan, options, None).await;
        if failures.is_empty() {
            continue;
        }
        // Making it smaller takes minutes.
        eprintln!("seed {seed} fails and is made smaller: {}", failures.join("; "));
        let again = async |plan: &Plan| {
            let now = judge::failures(plan, options, Some(SHRINKING_PATIENCE)).await;
            if shrink::are_alike(&failures, &now) { now } else { Vec::new() }
        };
        let (plan, failures) = shrink::shrink(plan, failures.clone(), ATTEMPTS, again).await;
        let kubelets = if hostile { "hostile kubelets" } else { "kubelets" };
        let about = format!("Seed {seed} with {kubelets}: {}", failures.join("; "));
        row.file = Some(keep(&fuzz.keep_failures, &plan, &about)?);
        row.passed = false;
        row.failures = failures.into_iter().map(|text| format!("{kubelets}: {text}")).collect();
        break;
    }
    row.seconds = began.elapsed().as_secs_f64();
    Ok(row)
}

/// Writes the plan as a scenario file, named after its seed.
pub fn keep(folder: &Path, plan: &Plan, about: &str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(format!("{}.yaml", plan.name()));
    std::fs::write(&path, plan.to_yaml(about)?).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
