//! The command line of `neuron-e2e`: its arguments, and which part answers. Called by `main`; no library imports it.

mod bench;
mod catalog;
mod cluster_kind;
mod doctor;
mod fuzz;
mod list;
mod progress;
mod run;
mod selection;
mod simulate;
mod suggest;
mod verify;

use std::future::Future;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use self::cluster_kind::ClusterKind;
use crate::{conformance, playground};

/// What the help of every command that runs something ends with.
const EXIT_CODES: &str = "Exit codes:
  0  everything passed, or was skipped
  1  something failed: what, and why, is printed
  2  asked for wrongly, or not prepared, carried out or tidied up after: why is printed";

/// Runs the scenarios of the Neuron scheduling suite: the production extender and device plugin on fake hardware.
#[derive(Debug, Parser)]
#[command(name = "neuron-e2e", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArguments,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs scenarios (what happens without a command).
    #[command(after_help = EXIT_CODES)]
    Run(run::RunArguments),
    /// Says whether this machine can run scenarios on kind, and what to do where it cannot. Pulls the node image where it
    /// is not here.
    #[command(after_help = EXIT_CODES)]
    Doctor(doctor::DoctorArguments),
    /// A fake Neuron cluster to try things on.
    #[command(subcommand)]
    Cluster(playground::Command),
    /// Runs random scenarios; on the same kind of cluster the same seed makes the same ones.
    #[command(after_help = EXIT_CODES)]
    Fuzz(fuzz::FuzzArguments),
    /// Runs the suite in simulated time: a day of a small cluster in a minute, with faults of a seed, and the very same one again.
    #[command(after_help = EXIT_CODES)]
    Simulate(simulate::SimulateArguments),
    /// Measures what the suite costs.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Carries out Kubernetes' own node e2e cases for device plugins, and what kubelet does besides, with ours or any other.
    #[command(after_help = EXIT_CODES)]
    Conformance(Box<conformance::Arguments>),
    /// Our device plugin on a fake machine, as a process that `conformance` starts.
    #[command(hide = true)]
    OwnPlugin(conformance::OwnPlugin),
    /// Says whether a suite that is installed works, on real hardware or fake: runs a handful of pods on an existing
    /// cluster and deletes them. Installs and relabels nothing.
    Verify(verify::VerifyArguments),
    /// Lists the scenarios.
    List(list::ListArguments),
}

/// Carries the arguments out. Exit code 0 if everything passed, 1 if a scenario failed.
///
/// # Errors
/// Misuse, or a run that could not be carried out or tidied up after: exit code 2, as where no cluster could be prepared.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    // The ring provider must be chosen before the first client is made; a second choice is no error here.
    let _already_chosen = rustls::crypto::ring::default_provider().install_default();
    match arguments.command.unwrap_or(Command::Run(arguments.run)) {
        Command::Run(arguments) => wait_for(run::run(arguments)),
        Command::List(arguments) => list::run(&arguments),
        Command::Doctor(arguments) => wait_for(doctor::run(arguments)),
        Command::Fuzz(arguments) => wait_for(fuzz::run(arguments)),
        Command::Verify(arguments) => wait_for(verify::run(arguments)),
        Command::Conformance(arguments) => wait_for(conformance::run(*arguments)),
        Command::OwnPlugin(arguments) => wait_for(conformance::run_own_plugin(arguments)),
        Command::Cluster(command) => wait_for(playground::run(command)),
        Command::Bench(command) => bench::run(command),
        Command::Simulate(arguments) => simulate::run(arguments),
    }
}

fn wait_for(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    tokio::runtime::Runtime::new()?.block_on(work)
}
