//! `neuron-e2e fuzz`: random scenarios, on either kind of cluster.

use std::io::{IsTerminal as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use neuron_e2e_engine::fuzz::{self, Fuzz, Row};

use super::cluster_kind::{ClusterKind, EMBEDDED_HEADING, SIDE_BY_SIDE, refuse_embedded_only, skipped};
use super::progress;
use crate::kind;
use crate::kind::fuzz::OnKind;
use crate::kind_arguments::KindArguments;
use crate::report::{Output, print};

/// The command line of `neuron-e2e fuzz`.
#[derive(Clone, Debug, Args)]
pub(super) struct FuzzArguments {
    /// Seed of the first scenario; the next ones have the next numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many scenarios.
    #[arg(long, default_value_t = 50)]
    count: u64,
    /// Scenarios that run at the same time [default: 2].
    #[arg(long, help_heading = EMBEDDED_HEADING)]
    jobs: Option<usize>,
    /// How to print what came of them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Folder for the scenario files of those that fail, made smaller.
    #[arg(long, value_name = "DIR", default_value = "fuzz-failures")]
    keep_failures: PathBuf,
    /// The cluster that runs them; on kind most also run embedded, and the outcomes are compared.
    #[arg(long, value_enum, default_value_t)]
    cluster: ClusterKind,
    #[command(flatten)]
    kind: KindArguments,
}

/// Runs them and prints what came of it. Exit code 1 if one failed, 2 if none did and no cluster could be prepared for one.
pub(super) async fn run(arguments: FuzzArguments) -> anyhow::Result<ExitCode> {
    let FuzzArguments { seed, count, jobs, output, keep_failures, cluster, kind } = arguments;
    let fuzz = Fuzz { seed, count, jobs: jobs.unwrap_or(2), keep_failures };
    let (rows, not_prepared) = match cluster {
        ClusterKind::Embedded => (on_embedded(&fuzz).await?, Vec::new()),
        ClusterKind::Kind => {
            refuse_embedded_only(&[("--jobs", jobs.is_some(), SIDE_BY_SIDE)])?;
            // Plans have two nodes at most.
            let (schedulings, clusters, require) = (kind.schedulings(), kind.clusters, kind.require);
            match kind::fuzz::run(&fuzz, &schedulings, kind.options(2), clusters).await? {
                OnKind::Skipped(why) => return skipped(&why, require),
                OnKind::Ran { rows, not_prepared } => {
                    rows.iter().filter(|row| !row.passed).for_each(|row| print::progress(row.line()));
                    not_prepared.iter().for_each(print::progress);
                    (rows, not_prepared)
                }
            }
        }
    };
    let failed = rows.iter().filter(|row| !row.passed).count();
    match output {
        Output::Json => print::json(&rows)?,
        Output::Table => print::line(summary(&rows, failed, not_prepared.len(), cluster))?,
    }
    Ok(match (failed, not_prepared.len()) {
        (0, 0) => ExitCode::SUCCESS,
        // As a run that could not be carried out: nothing is known of these seeds.
        (0, _) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

fn summary(rows: &[Row], failed: usize, not_prepared: usize, cluster: ClusterKind) -> String {
    let compared = match cluster {
        ClusterKind::Embedded => String::new(),
        ClusterKind::Kind => {
            let compared = rows.iter().filter(|row| row.compared).count();
            format!("; {compared} compared with the embedded cluster")
        }
    };
    let not_prepared =
        if not_prepared == 0 { String::new() } else { format!(", {not_prepared} not prepared") };
    format!("{} passed, {failed} failed{not_prepared}{compared}", rows.len() - failed)
}

async fn on_embedded(fuzz: &Fuzz) -> anyhow::Result<Vec<Row>> {
    let progress = progress::bar(fuzz.count)?;
    let report = |row: &Row| {
        progress.inc(1);
        progress.set_message(format!("seed {}", row.seed));
        if !row.passed || !stderr().is_terminal() {
            progress.suspend(|| print::progress(row.line()));
        }
    };
    let rows = fuzz::on_embedded(fuzz, report).await?;
    progress.finish_and_clear();
    Ok(rows)
}
