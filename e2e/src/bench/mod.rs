//! `neuron-e2e bench`: what the suite costs, measured against the real kube-scheduler. Called by the command line.
//!
//! `scheduler` is the measurement; it starts the extenders it compares as processes of this same program
//! (`serve`): ours, and one that does nothing but pass and bind (`passing`).

mod garbage;
mod machine;
mod nodes;
mod pace;
mod passing;
mod pods;
mod program;
mod report;
mod running;
mod scheduler;
mod serve;
mod session;
mod variant;

use std::io;
use std::process::ExitCode;

use clap::Subcommand;
use tokio::runtime::{Builder, Runtime};

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub enum BenchCommand {
    /// Pods per second through the real kube-scheduler: without an extender, with one that only passes and binds,
    /// and with ours.
    Scheduler(session::Arguments),
    /// One of the extenders that are compared, as a process of its own; `bench scheduler` starts it.
    #[command(hide = true)]
    Extender(serve::Arguments),
}

/// What the command runs on: the extenders on one thread, as neuron-extender itself does.
pub fn runtime(command: &BenchCommand) -> io::Result<Runtime> {
    match command {
        BenchCommand::Scheduler(_) => Runtime::new(),
        BenchCommand::Extender(_) => Builder::new_current_thread().enable_all().build(),
    }
}

/// Measures. Exit code 0 also where this machine lacks something and nothing was measured, unless it is required.
pub async fn run(command: BenchCommand) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Scheduler(arguments) => session::run(arguments).await,
        BenchCommand::Extender(arguments) => serve::run(arguments).await.map(|()| ExitCode::SUCCESS),
    }
}
