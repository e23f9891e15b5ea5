//! `neuron-e2e cluster`: a fake Neuron cluster in one command, to try things on. `up` makes it, `status` draws it,
//! or any other cluster with Neuron nodes. Called by the command line.

mod next;
mod show;
mod status;
mod up;

use std::io::{ErrorKind, Write as _, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::json;

use crate::kind::OWNER;
use crate::report::Output;

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Makes a cluster on kind with fake Neuron nodes and the suite installed, and says what to type next.
    Up(up::Arguments),
    /// Draws each node's devices and who holds them, and says what pods wait for.
    Status(status::Arguments),
    /// Deletes a cluster that neuron-e2e made, by `up`, or by `run`, `fuzz`, `bench` or `conformance` with that name, and
    /// makes sure that nothing stays.
    Down(Name),
    /// Lists the clusters that neuron-e2e made and that stand, with the kubeconfig of each.
    List(Printed),
}

/// How to print.
#[derive(Clone, Debug, Args)]
pub struct Printed {
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Which cluster.
#[derive(Clone, Debug, Args)]
pub struct Name {
    /// Name of the cluster.
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
}

/// The cluster's name where none is given.
const DEFAULT_NAME: &str = "neuron-playground";

/// Carries the command out.
pub async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(arguments) => up::run(arguments).await?,
        Command::Status(arguments) => status::run(arguments).await?,
        Command::Down(Name { name }) => {
            OWNER.take_down(&name).await?;
            say(&format!("cluster {name} is gone\n"))?;
        }
        Command::List(Printed { output }) => list(&OWNER.clusters().await?, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(names: &[String], output: Output) -> anyhow::Result<()> {
    let clusters = names.iter().map(|name| (name, OWNER.kubeconfig(name)));
    match output {
        Output::Table => clusters
            .map(|(name, path)| format!("{name}  {}\n", path.display()))
            .try_for_each(|line| say(&line)),
        Output::Json => {
            let row = |(name, path): (&String, PathBuf)| json!({"name": name, "kubeconfig": path.display().to_string()});
            let rows: Vec<_> = clusters.map(row).collect();
            say(&format!("{}\n", serde_json::to_string_pretty(&rows)?))
        }
    }
}

/// Writes to standard output. Whoever reads it may have read enough: that is no error.
fn say(text: &str) -> anyhow::Result<()> {
    match stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("writing to standard output"),
    }
}
