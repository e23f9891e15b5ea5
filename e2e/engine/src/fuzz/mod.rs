//! Random scenarios: made of a seed ([`generate`], [`plan`]), run and checked ([`check`]), made smaller where they fail
//! ([`shrink`]) and kept as scenario files. Where two clusters run them, those whose outcome must be the same
//! ([`comparable`]) are compared. Called by the command line.

pub mod check;
pub mod comparable;
pub mod generate;
pub mod plan;
pub mod shapes;
pub mod shrink;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use futures::StreamExt as _;
use serde::Serialize;
use tokio::time::Instant;

use crate::embedded::{Options, Version};
use crate::scenario::CatalogSource;
use plan::Plan;

/// Smaller plans that are tried of one that fails.
const ATTEMPTS: usize = 60;
/// How long a wait may take while a plan is made smaller.
const SHRINKING_TIMEOUT: Duration = Duration::from_secs(15);

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
    /// The instance types of their nodes.
    pub catalog: CatalogSource,
    /// The Kubernetes version of the embedded cluster, where nothing else decides it.
    pub kubernetes: Version,
}

/// What there is to say while random scenarios run.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'r> {
    /// One fails and is made smaller, which takes minutes.
    Shrinking {
        /// The seed that it was made from.
        seed: u64,
        /// What is wrong, one sentence each.
        failures: &'r [String],
    },
    /// One is over.
    Done(&'r Row),
}

/// What came of one random scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it was made from: `fuzz --seed N --count 1` on the same kind of cluster runs it again.
    pub seed: u64,
    /// Whether nothing was wrong.
    pub passed: bool,
    /// Whether its outcome on kind was compared with the embedded cluster's, and not only held to the invariants.
    pub compared: bool,
    /// Whether it failed only with kubelets that take the worst of their free choices.
    pub adversarial: bool,
    /// What was wrong, after the scenario was made smaller.
    pub failures: Vec<String>,
    /// The scenario file of what failed, made smaller.
    pub file: Option<PathBuf>,
    /// Wall time, in seconds.
    pub seconds: f64,
}

/// Runs the random scenarios on the embedded cluster, each with kubelets that choose by the seed and with adversarial
/// ones. Rows come in the order of their seeds, progress as it happens.
///
/// # Errors
/// The file of a scenario that fails cannot be written.
pub async fn on_embedded(fuzz: &Fuzz, progress: impl Fn(Progress)) -> anyhow::Result<Vec<Row>> {
    let seeds = (0..fuzz.count).map(|place| fuzz.seed.wrapping_add(place));
    let runs = futures::stream::iter(seeds)
        .map(|seed| one(fuzz, seed, &progress))
        .buffer_unordered(fuzz.jobs.max(1));
    let mut rows = Vec::new();
    let mut runs = std::pin::pin!(runs);
    while let Some(row) = runs.next().await {
        let row = row?;
        progress(Progress::Done(&row));
        rows.push(row);
    }
    rows.sort_by_key(|row: &Row| row.seed);
    Ok(rows)
}

async fn one(fuzz: &Fuzz, seed: u64, progress: &impl Fn(Progress)) -> anyhow::Result<Row> {
    let began = Instant::now();
    let plan = generate::plan(seed, &fuzz.catalog);
    let mut row = Row {
        seed,
        passed: true,
        compared: false,
        adversarial: false,
        failures: Vec::new(),
        file: None,
        seconds: 0.0,
    };
    for adversarial in [false, true] {
        let options = Options { seed, adversarial, kubernetes: fuzz.kubernetes };
        let failures = check::failures(&plan, options, None).await;
        if failures.is_empty() {
            continue;
        }
        progress(Progress::Shrinking { seed, failures: &failures });
        let again = async |plan: &Plan| {
            let now = check::failures(plan, options, Some(SHRINKING_TIMEOUT)).await;
            if shrink::are_alike(&failures, &now) { now } else { Vec::new() }
        };
        let (plan, failures) = shrink::shrink(plan, failures.clone(), ATTEMPTS, again).await;
        let kubelets = if adversarial { "adversarial kubelets" } else { "kubelets" };
        let about = format!("Seed {seed} with {kubelets}: {}", failures.join("; "));
        row.file = Some(keep(&fuzz.keep_failures, &plan, &about)?);
        (row.passed, row.adversarial) = (false, adversarial);
        row.failures = failures.into_iter().map(|text| format!("{kubelets}: {text}")).collect();
        break;
    }
    row.seconds = began.elapsed().as_secs_f64();
    Ok(row)
}

/// Writes the plan as a scenario file, named after its seed; the file's path. `neuron-e2e run` takes it.
///
/// # Errors
/// The folder or the file cannot be written.
pub fn keep(folder: &Path, plan: &Plan, about: &str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let path = folder.join(format!("{}.yaml", plan.name()));
    std::fs::write(&path, plan.to_yaml(about)?).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
