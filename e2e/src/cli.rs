//! The command line of `neuron-e2e`. Called by `main`.

use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Parser, Subcommand, ValueEnum};
use futures::StreamExt as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::bench::{self, BenchCommand};
use crate::choice::Choice;
use crate::kind;
use crate::kind::conformance;
use crate::kind::fuzz::OnKind;
use crate::kind::session::Session;
use crate::kind_arguments::{KindArguments, node_image_of_environment};
use crate::playground;
use crate::report::tables::{summary, table, told};
use crate::report::{Output, Row, drawing, tables};
use neuron_e2e_engine::embedded::{self, Options};
use neuron_e2e_engine::fuzz::{self, Fuzz};
use neuron_e2e_engine::scenario::Scenario;
use neuron_e2e_engine::scenario::library;

/// Runs the scenarios of the Neuron scheduling suite: the production extender and device plugin on fake hardware.
#[derive(Debug, Parser)]
#[command(name = "neuron-e2e", version, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs scenarios (what happens without a command).
    Run(RunArguments),
    /// Says whether this machine can run scenarios on kind, and what to do where it cannot. Pulls the node image where it
    /// is not here.
    Doctor {
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// A fake Neuron cluster to try things on.
    #[command(subcommand)]
    Cluster(playground::Command),
    /// Runs random scenarios; on the same kind of cluster the same seed makes the same ones.
    Fuzz(FuzzArguments),
    /// Measures what the suite costs.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Carries out Kubernetes' own node e2e cases for device plugins, with ours, on kind.
    Conformance(conformance::Arguments),
    /// Lists the scenarios.
    List {
        /// How to print them.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
}

/// Above what only runs on the embedded cluster know.
const EMBEDDED: &str = "With --cluster embedded";

#[derive(Clone, Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    choice: Choice,
    /// Seeds of kubelet's free choices; every scenario runs once with each [default: 0].
    #[arg(long, value_delimiter = ',', help_heading = EMBEDDED)]
    seed: Vec<u64>,
    /// Let kubelet take the worst of its free choices.
    #[arg(long, help_heading = EMBEDDED)]
    hostile: bool,
    /// Scenarios that run at the same time [default: 4].
    #[arg(long, help_heading = EMBEDDED)]
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

#[derive(Clone, Debug, Args)]
struct FuzzArguments {
    /// Seed of the first scenario; the next ones have the next numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many scenarios.
    #[arg(long, default_value_t = 50)]
    count: u64,
    /// Scenarios that run at the same time [default: 2].
    #[arg(long, help_heading = EMBEDDED)]
    jobs: Option<usize>,
    /// How to print what came of them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Folder for the scenario files of those that fail, made smaller.
    #[arg(long, value_name = "DIR", default_value = "fuzz-failures")]
    keep_failures: std::path::PathBuf,
    /// The cluster that runs them; on kind most also run embedded, and the outcomes are compared.
    #[arg(long, value_enum, default_value_t)]
    cluster: ClusterKind,
    #[command(flatten)]
    kind: KindArguments,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum ClusterKind {
    /// In this process.
    #[default]
    Embedded,
    /// Real Kubernetes in Docker.
    Kind,
}

/// Carries the arguments out. Exit code 0 if everything passed, 1 if a scenario failed. An error is code 2: misuse,
/// or a run that could not be carried out or tidied up after.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command.unwrap_or(Command::Run(arguments.run)) {
        Command::List { output } => list(output),
        Command::Doctor { output } => tokio::runtime::Runtime::new()?.block_on(doctor(output)),
        Command::Bench(command) => {
            let _already_chosen = rustls::crypto::ring::default_provider().install_default();
            bench::runtime(&command)?.block_on(bench::run(command))
        }
        Command::Cluster(command) => {
            let _already_chosen = rustls::crypto::ring::default_provider().install_default();
            tokio::runtime::Runtime::new()?.block_on(playground::run(command))
        }
        Command::Fuzz(arguments) => {
            let _already_chosen = rustls::crypto::ring::default_provider().install_default();
            tokio::runtime::Runtime::new()?.block_on(run_fuzz(arguments))
        }
        Command::Conformance(arguments) => {
            let _already_chosen = rustls::crypto::ring::default_provider().install_default();
            tokio::runtime::Runtime::new()?.block_on(conformance::run(arguments))
        }
        Command::Run(arguments) => {
            // The ring provider must be chosen before the first client is made; a second choice is no error here.
            let _already_chosen = rustls::crypto::ring::default_provider().install_default();
            let runtime = tokio::runtime::Runtime::new()?;
            match arguments.cluster {
                ClusterKind::Embedded => runtime.block_on(run_scenarios(arguments)),
                ClusterKind::Kind => runtime.block_on(run_on_kind(arguments)),
            }
        }
    }
}

fn list(output: Output) -> anyhow::Result<ExitCode> {
    let scenarios = library::all()?;
    match output {
        Output::Table => println!("{}", tables::list(&scenarios)),
        Output::Json => {
            let rows: Vec<_> = scenarios
                .iter()
                .map(|one| serde_json::json!({"scenario": one.name, "tier": one.tier.name(), "about": one.about}))
                .collect();
            println!("{}", serde_json::to_string_pretty(&rows)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn run_scenarios(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let scenarios = arguments.choice.scenarios()?;
    let scenarios = scenarios.into_iter().filter(|scenario| runs_on("embedded", scenario));
    let seeds = if arguments.seed.is_empty() { &[0][..] } else { &arguments.seed };
    let runs: Vec<(Scenario, Options)> = scenarios
        .flat_map(|scenario| {
            let options = |seed: &u64| Options { seed: *seed, hostile: arguments.hostile };
            seeds.iter().map(options).map(|options| (scenario.clone(), options)).collect::<Vec<_>>()
        })
        .collect();
    let progress = progress(runs.len() as u64)?;
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
                    eprintln!("{word} {:6.2} s  {}", row.seconds, row.scenario);
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
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Output::Table => {
            println!("{}", table(&rows));
            if let ([row], [(scenario, _)]) = (&rows[..], &runs[..])
                && let Some(outcome) = &row.outcome
            {
                println!("{}\n", scenario.about);
                print!("{}{}", drawing::nodes(scenario, outcome), told(outcome));
            }
            println!("{}", summary(&rows));
        }
    }
    Ok(exit_code(&rows))
}

fn exit_code(rows: &[Row]) -> ExitCode {
    if rows.iter().any(Row::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether this kind of cluster can run it; says why not.
fn runs_on(cluster: &str, scenario: &Scenario) -> bool {
    let elsewhere = scenario.only.as_ref().filter(|only| only.cluster != cluster);
    if let Some(only) = elsewhere {
        eprintln!("skipped           {}: only on {}: {}", scenario.name, only.cluster, only.because);
    }
    elsewhere.is_none()
}

async fn run_fuzz(arguments: FuzzArguments) -> anyhow::Result<ExitCode> {
    let FuzzArguments { seed, count, jobs, output, keep_failures, cluster, kind } = arguments;
    if cluster == ClusterKind::Kind && jobs.is_some() {
        bail!("{}", embedded_only("--jobs", SIDE_BY_SIDE));
    }
    let fuzz = Fuzz { seed, count, jobs: jobs.unwrap_or(2), keep_failures };
    let rows = match cluster {
        ClusterKind::Embedded => fuzz_embedded(&fuzz).await?,
        ClusterKind::Kind => {
            // Plans have two nodes at most.
            let (ways, clusters, require) = (kind.ways(), kind.clusters, kind.require);
            match kind::fuzz::run(&fuzz, &ways, kind.options(2), clusters).await? {
                OnKind::Skipped(why) => return lacking(&why, require),
                OnKind::Ran(rows) => {
                    rows.iter().filter(|row| !row.passed).for_each(|row| eprintln!("{}", row.line()));
                    rows
                }
            }
        }
    };
    let failed = rows.iter().filter(|row| !row.passed).count();
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Output::Table => {
            let compared = rows.iter().filter(|row| row.compared).count();
            let compared = match cluster {
                ClusterKind::Embedded => String::new(),
                ClusterKind::Kind => format!("; {compared} compared with the embedded cluster"),
            };
            println!("{} passed, {failed} failed{compared}", rows.len() - failed);
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn fuzz_embedded(fuzz: &Fuzz) -> anyhow::Result<Vec<fuzz::Row>> {
    let progress = progress(fuzz.count)?;
    let told = |row: &fuzz::Row| {
        progress.inc(1);
        progress.set_message(format!("seed {}", row.seed));
        if !row.passed || !stderr().is_terminal() {
            progress.suspend(|| eprintln!("{}", row.line()));
        }
    };
    let rows = fuzz::on_embedded(fuzz, told).await?;
    progress.finish_and_clear();
    Ok(rows)
}

async fn run_on_kind(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    refuse_embedded_only(&arguments)?;
    let mut scenarios = arguments.choice.scenarios()?;
    scenarios.retain(|scenario| runs_on("kind", scenario));
    let RunArguments { kind, output, .. } = arguments;
    let workers = scenarios.iter().map(|scenario| scenario.nodes.len()).max().unwrap_or(1);
    let (ways, clusters, require) = (kind.ways(), kind.clusters, kind.require);
    let rows = match kind::session::run(&scenarios, &ways, kind.options(workers), clusters).await? {
        Session::Skipped(why) => return lacking(&why, require),
        Session::Ran(rows) => rows,
    };
    show(&rows, output)
}

/// An error that names what was asked for and only the embedded cluster can do.
fn refuse_embedded_only(arguments: &RunArguments) -> anyhow::Result<()> {
    let asked = [
        ("--seed", !arguments.seed.is_empty(), "a real kubelet's choices cannot be seeded"),
        ("--hostile", arguments.hostile, "a real kubelet makes its own choices"),
        ("--jobs", arguments.jobs.is_some(), SIDE_BY_SIDE),
    ];
    match asked.into_iter().find(|(_, is_asked, _)| *is_asked) {
        Some((flag, _, why)) => bail!("{}", embedded_only(flag, why)),
        None => Ok(()),
    }
}

/// What takes the place of `--jobs` on kind.
const SIDE_BY_SIDE: &str = "give --clusters, how many clusters work side by side";

fn embedded_only(flag: &str, why: &str) -> String {
    format!("{flag} works with --cluster embedded only: {why}")
}

/// What to do where this machine lacks something: a failure only if it is required.
fn lacking(why: &str, require: bool) -> anyhow::Result<ExitCode> {
    if require {
        bail!("{why}");
    }
    println!("skipped: {why}");
    Ok(ExitCode::SUCCESS)
}

fn show(rows: &[Row], output: Output) -> anyhow::Result<ExitCode> {
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(rows)?),
        Output::Table => println!("{}\n{}", table(rows), summary(rows)),
    }
    Ok(exit_code(rows))
}

async fn doctor(output: Output) -> anyhow::Result<ExitCode> {
    let image = node_image_of_environment();
    let findings = kind::doctor::look(image.as_deref(), kind::pool::CLUSTERS).await;
    match output {
        Output::Table => findings.iter().for_each(|finding| println!("{finding}")),
        Output::Json => println!("{}", serde_json::to_string_pretty(&findings)?),
    }
    let healthy = findings.iter().all(|finding| finding.found.is_ok());
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn progress(runs: u64) -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    Ok(bar)
}
