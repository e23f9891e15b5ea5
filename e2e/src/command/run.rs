//! `neuron-e2e run`: scenarios, on either kind of cluster.

use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;

use clap::Args;
use futures::StreamExt as _;
use neuron_e2e_engine::embedded::{self, Options};
use neuron_e2e_engine::scenario::Scenario;
use tokio::time::Instant;

use super::cluster_kind::{ClusterKind, EMBEDDED_HEADING, SIDE_BY_SIDE, refuse_embedded_only, skipped};
use super::progress;
use super::selection::Selection;
use crate::kind;
use crate::kind::session::Session;
use crate::kind_arguments::KindArguments;
use crate::report::tables::{summary, table, told};
use crate::report::{Output, Row, drawing, print};

/// The command line of `neuron-e2e run`.
#[derive(Clone, Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    selection: Selection,
    /// Seeds of kubelet's free choices; every scenario runs once with each [default: 0].
    #[arg(long, value_delimiter = ',', help_heading = EMBEDDED_HEADING)]
    seed: Vec<u64>,
    /// Let kubelet take the worst of its free choices.
    #[arg(long, help_heading = EMBEDDED_HEADING)]
    hostile: bool,
    /// Scenarios that run at the same time [default: 4].
    #[arg(long, help_heading = EMBEDDED_HEADING)]
    jobs: Option<usize>,
    /// How to print what came of them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// The cluster that runs them; on kind each scenario also runs embedded, and the outcomes are compared.
    #[arg(long, value_enum, default_value_t)]
    cluster: ClusterKind,
    #[command(flatten)]
    kind: KindArguments,
}

/// Runs them and prints what came of it. Exit code 1 if one failed, 2 if none did and no cluster could be prepared for one.
pub(super) async fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    match arguments.cluster {
        ClusterKind::Embedded => on_embedded(arguments).await,
        ClusterKind::Kind => on_kind(arguments).await,
    }
}

async fn on_embedded(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let scenarios = arguments.selection.scenarios()?;
    let scenarios = scenarios.into_iter().filter(|scenario| runs_on("embedded", scenario));
    let seeds = if arguments.seed.is_empty() { &[0][..] } else { &arguments.seed };
    let runs: Vec<(Scenario, Options)> = scenarios
        .flat_map(|scenario| {
            let options = |seed: &u64| Options { seed: *seed, hostile: arguments.hostile };
            seeds.iter().map(options).map(|options| (scenario.clone(), options)).collect::<Vec<_>>()
        })
        .collect();
    let progress = progress::bar(runs.len() as u64)?;
    let mut rows = futures::stream::iter(runs.iter().enumerate())
        .map(|(place, (scenario, options))| {
            let progress = &progress;
            async move {
                let began = Instant::now();
                let result = embedded::run(scenario, *options).await;
                let row = Row::new(scenario, result, began.elapsed().as_secs_f64());
                progress.inc(1);
                let word = if row.passed { "passed" } else { "FAILED" };
                progress.set_message(scenario.name.clone());
                if !stderr().is_terminal() {
                    print::progress(format_args!("{word} {:6.2} s  {}", row.seconds, row.scenario));
                }
                (place, row)
            }
        })
        .buffer_unordered(arguments.jobs.unwrap_or(4).max(1))
        .collect::<Vec<_>>()
        .await;
    progress.finish_and_clear();
    rows.sort_by_key(|(place, _)| *place);
    let rows: Vec<Row> = rows.into_iter().map(|(_, row)| row).collect();
    match arguments.output {
        Output::Json => print::json(&rows)?,
        Output::Table => {
            print::line(table(&rows))?;
            if let ([row], [(scenario, _)]) = (&rows[..], &runs[..])
                && let Some(outcome) = &row.outcome
            {
                let drawing = drawing::nodes(scenario, outcome);
                print::line(
                    format_args!("{}\n\n{drawing}{}", scenario.about, told(outcome)).to_string().trim_end(),
                )?;
            }
            print::line(summary(&rows))?;
        }
    }
    Ok(exit_code(&rows))
}

async fn on_kind(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    refuse_embedded_only(&[
        ("--seed", !arguments.seed.is_empty(), "a real kubelet's choices cannot be seeded"),
        ("--hostile", arguments.hostile, "a real kubelet makes its own choices"),
        ("--jobs", arguments.jobs.is_some(), SIDE_BY_SIDE),
    ])?;
    let mut scenarios = arguments.selection.scenarios()?;
    scenarios.retain(|scenario| runs_on("kind", scenario));
    let RunArguments { kind, output, .. } = arguments;
    let workers = scenarios.iter().map(|scenario| scenario.nodes.len()).max().unwrap_or(1);
    let (schedulings, clusters, require) = (kind.schedulings(), kind.clusters, kind.require);
    let rows = match kind::session::run(&scenarios, &schedulings, kind.options(workers), clusters).await? {
        Session::Skipped(why) => return skipped(&why, require),
        Session::Ran(rows) => rows,
    };
    match output {
        Output::Json => print::json(&rows)?,
        Output::Table => print::line(format_args!("{}\n{}", table(&rows), summary(&rows)))?,
    }
    Ok(exit_code(&rows))
}

fn exit_code(rows: &[Row]) -> ExitCode {
    if rows.iter().any(Row::failed) {
        return ExitCode::FAILURE;
    }
    // As a run that could not be carried out: nothing is known of the scenario.
    if rows.iter().any(|row| row.not_prepared.is_some()) { ExitCode::from(2) } else { ExitCode::SUCCESS }
}

/// Whether this kind of cluster can run it; says why not.
fn runs_on(cluster: &str, scenario: &Scenario) -> bool {
    let elsewhere = scenario.only.as_ref().filter(|only| only.cluster != cluster);
    if let Some(only) = elsewhere {
        let text = format_args!("only on {}: {}", only.cluster, only.because);
        print::progress(format_args!("skipped           {}: {text}", scenario.name));
    }
    elsewhere.is_none()
}
