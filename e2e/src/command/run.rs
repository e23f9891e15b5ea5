//! `neuron-e2e run`: scenarios, on either kind of cluster.

use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;

use clap::Args;
use futures::StreamExt as _;
use neuron_e2e_engine::embedded::{self, NotUp, Options, Version};
use neuron_e2e_engine::outcome::Outcome;
use neuron_e2e_engine::scenario::Scenario;
use tokio::time::Instant;

use super::cluster_kind::{
    CATALOG_ON_KIND, ClusterKind, EMBEDDED_HEADING, SIDE_BY_SIDE, VERSION_ON_KIND, refuse_embedded_only,
    skipped,
};
use super::progress;
use super::selection::Selection;
use crate::kind;
use crate::kind::session::Session;
use crate::kind_arguments::KindArguments;
use crate::report::{Output, Row, drawing, print, tables};

/// The command line of `neuron-e2e run`.
#[derive(Clone, Debug, Args)]
pub(super) struct RunArguments {
    #[command(flatten)]
    selection: Selection,
    /// Seeds of kubelet's free choices; every scenario runs once with each [default: 0].
    #[arg(long, value_delimiter = ',', help_heading = EMBEDDED_HEADING)]
    seed: Vec<u64>,
    /// Let kubelet take the worst of its free choices.
    #[arg(long, alias = "hostile", help_heading = EMBEDDED_HEADING)]
    adversarial: bool,
    /// Scenarios that run at the same time [default: 4].
    #[arg(long, help_heading = EMBEDDED_HEADING)]
    jobs: Option<usize>,
    /// Kubernetes version that the cluster is, 1.34 or 1.37 [default: 1.37].
    #[arg(long, value_name = "VERSION", help_heading = EMBEDDED_HEADING)]
    kubernetes: Option<Version>,
    /// How to print what came of them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Show a table: the nodes, and what was placed where. One scenario alone is always shown so.
    #[arg(short, long)]
    verbose: bool,
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
            let options = |seed: &u64| {
                let kubernetes = arguments.kubernetes.unwrap_or_default();
                Options { seed: *seed, adversarial: arguments.adversarial, kubernetes }
            };
            seeds.iter().map(options).map(|options| (scenario.clone(), options)).collect::<Vec<_>>()
        })
        .collect();
    print::progress(format_args!("Kubernetes {}, embedded", arguments.kubernetes.unwrap_or_default()));
    let is_json = arguments.output == Output::Json;
    // One scenario alone is shown in full.
    let shows_table = arguments.verbose || runs.len() == 1;
    let progress = progress::bar(runs.len() as u64)?;
    let mut finished = InOrder::new(runs.len());
    let mut running = futures::stream::iter(runs.iter().enumerate())
        .map(async |(place, (scenario, options))| {
            let began = Instant::now();
            let seconds = || began.elapsed().as_secs_f64();
            let row = match embedded::run(scenario, *options).await {
                Err(why) if why.is::<NotUp>() => Row::not_prepared(scenario, format!("{why:#}"), seconds()),
                result => Row::new(scenario, result, seconds()),
            };
            (place, row)
        })
        .buffer_unordered(arguments.jobs.unwrap_or(4).max(1));
    while let Some((place, row)) = running.next().await {
        progress.inc(1);
        progress.set_message(row.scenario.clone());
        for row in finished.add(place, row) {
            if !is_json && !shows_table {
                progress.suspend(|| print::line(tables::line(row)))?;
            } else if !stderr().is_terminal() {
                print::progress(tables::line(row));
            }
        }
    }
    progress.finish_and_clear();
    let rows = finished.rows();
    match arguments.output {
        Output::Json => print::json(&rows)?,
        Output::Table => {
            if shows_table {
                print::line(tables::results(&rows))?;
            }
            if let ([row], [(scenario, _)]) = (&rows[..], &runs[..])
                && let Some(outcome) = &row.outcome
            {
                print::line(alone(scenario, outcome))?;
            }
            print::line(tables::summary(&rows))?;
        }
    }
    Ok(exit_code(&rows))
}

/// What is shown of one scenario alone: what it is about, its nodes in the end, and what users were told.
fn alone(scenario: &Scenario, outcome: &Outcome) -> String {
    let (drawing, messages) = (drawing::nodes(scenario, outcome), tables::messages(outcome));
    format!("{}\n\n{drawing}{messages}", scenario.about).trim_end().to_owned()
}

/// Rows that come in any order, given out in the order of their runs: each as soon as those before it are there.
struct InOrder {
    rows: Vec<Option<Row>>,
    given_out: usize,
}

impl InOrder {
    fn new(runs: usize) -> Self {
        Self { rows: (0..runs).map(|_| None).collect(), given_out: 0 }
    }

    /// Adds the row of the run at this place; those that can be given out now.
    fn add(&mut self, place: usize, row: Row) -> impl Iterator<Item = &Row> {
        if let Some(free) = self.rows.get_mut(place) {
            *free = Some(row);
        }
        let from = self.given_out;
        self.given_out += self.rows.iter().skip(from).take_while(|row| row.is_some()).count();
        self.rows.iter().take(self.given_out).skip(from).flatten()
    }

    fn rows(self) -> Vec<Row> {
        self.rows.into_iter().flatten().collect()
    }
}

async fn on_kind(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    refuse_embedded_only(&[
        ("--seed", !arguments.seed.is_empty(), "a real kubelet's choices cannot be seeded"),
        ("--adversarial", arguments.adversarial, "a real kubelet makes its own choices"),
        ("--jobs", arguments.jobs.is_some(), SIDE_BY_SIDE),
        ("--kubernetes", arguments.kubernetes.is_some(), VERSION_ON_KIND),
        ("--catalog", arguments.selection.catalog.is_given(), CATALOG_ON_KIND),
    ])?;
    let mut scenarios = arguments.selection.scenarios()?;
    scenarios.retain(|scenario| runs_on("kind", scenario));
    let RunArguments { kind, output, verbose, .. } = arguments;
    let workers = scenarios.iter().map(|scenario| scenario.nodes.len()).max().unwrap_or(1);
    let (schedulings, clusters, require) = (kind.schedulings(), kind.clusters, kind.require);
    let rows = match kind::session::run(&scenarios, &schedulings, kind.options(workers), clusters).await? {
        Session::Skipped(why) => return skipped(&why, require),
        Session::Ran(rows) => rows,
    };
    match output {
        Output::Json => print::json(&rows)?,
        Output::Table => {
            if verbose {
                print::line(tables::results(&rows))?;
            } else {
                rows.iter().try_for_each(|row| print::line(tables::line(row)))?;
            }
            print::line(tables::summary(&rows))?;
        }
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
