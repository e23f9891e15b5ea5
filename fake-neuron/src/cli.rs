//! The command line: its commands, and which part of the library carries each out. Called by `main`.

mod agent;
mod exec;
mod fault;
mod health;
mod imds;
mod load;
mod node;
mod output;
mod record;
mod tools;
mod up;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fake_neuron::exec::{GUARD_COMMAND, guard};
use fake_neuron::fault::FaultError;
use fake_neuron::record::RecordError;
use fake_neuron::{CatalogFileError, Machine, read_catalog};
use neuron_core::catalog::Catalog;
use tools::Tool;

/// Stands in for the Neuron hardware of any EC2 instance type: its /dev, /sys and DMI files under a folder.
#[derive(Parser)]
#[command(name = "fake-neuron", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show every instance type that can be made.
    List {
        /// Also show the names that mean one of these types.
        #[arg(long)]
        aliases: bool,
        #[command(flatten)]
        catalog: CatalogFile,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Make a machine; the same machine again changes nothing, another one replaces it.
    Up(up::Arguments),
    /// Remove the machine: exactly what `up` made.
    Down {
        #[command(flatten)]
        root: Root,
    },
    /// Stay and keep a Kubernetes node's machine as its label and annotations ask.
    Node(node::Arguments),
    /// Stay and answer opens and ioctls of a node's containers.
    Agent(agent::Arguments),
    /// Run a program that finds the machine at the real paths, /dev and /sys, and nowhere else; nothing is left when it ends.
    Exec(exec::Arguments),
    /// Serve an instance's metadata (IMDS) on an address of its own.
    Imds(imds::Arguments),
    /// What `exec` starts beside the program, to clean up if fake-neuron is killed.
    #[command(name = GUARD_COMMAND, hide = true)]
    Guard,
    /// Break something on a machine that stands, now or later, and put it right again.
    #[command(subcommand)]
    Fault(fault::Command),
    /// Stay and change a machine's counters each second as a workload would.
    Load(load::Arguments),
    /// Capture a real host's Neuron files into a fixture that `up --from` replays; shows first what it would write.
    Record(record::Arguments),
    /// Show the devices as neuron-ls does; this program called as neuron-ls is the same.
    #[command(disable_help_flag = true)]
    Ls(tools::Arguments),
    /// Print metrics as neuron-monitor does; this program called as neuron-monitor is the same.
    #[command(disable_help_flag = true)]
    Monitor(tools::Arguments),
}

#[derive(Args)]
struct Root {
    /// Folder that the machine's /dev, /sys, /proc and /opt stand in.
    #[arg(long, env = "NEURON_ROOT", value_name = "DIR")]
    root: PathBuf,
}

#[derive(Args)]
struct CatalogFile {
    /// File of instance types, merged over those in the program: a row replaces the one of its name or is added.
    #[arg(long, value_name = "FILE")]
    catalog: Option<PathBuf>,
}

impl CatalogFile {
    /// The catalog to use.
    ///
    /// # Errors
    /// The file cannot be used.
    fn read(&self) -> Result<Cow<'static, Catalog>, CatalogFileError> {
        match &self.catalog {
            None => Ok(Cow::Borrowed(Catalog::embedded())),
            Some(file) => read_catalog(file).map(Cow::Owned),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Exit codes: 0 done, 1 failed, 2 asked for wrongly; those of the tools are their own.
pub(crate) fn run() -> ExitCode {
    if let Some((tool, arguments)) = Tool::called() {
        return tool.run(&arguments);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help that nobody reads any more, as in `fake-neuron --help | head -1`, is no failure.
            let _ = usage.print();
            let is_exec = std::env::args_os().nth(1).is_some_and(|command| command == "exec");
            // Of `exec` 2 would be the program's.
            let misuse = if is_exec { exec::OWN_FAILURE } else { 2 };
            return ExitCode::from(if usage.use_stderr() { misuse } else { 0 });
        }
    };
    let command = match cli.command {
        // Their exit codes are their own.
        Command::Exec(arguments) => return exec::run(arguments),
        Command::Ls(arguments) => return Tool::Ls.run(&arguments),
        Command::Monitor(arguments) => return Tool::Monitor.run(&arguments),
        other => other,
    };
    match execute(command).and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "fake-neuron: {error:#}");
            let misuse = error.is::<CatalogFileError>()
                || error.downcast_ref().is_some_and(FaultError::is_misuse)
                || error.downcast_ref().is_some_and(RecordError::is_misuse);
            if misuse { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// The command's standard output, with its last newline.
fn execute(command: Command) -> anyhow::Result<String> {
    match command {
        Command::List { aliases, catalog, output } => {
            let catalog = catalog.read()?;
            match output {
                Format::Table => Ok(output::table(&catalog, aliases, io::stdout().is_terminal())),
                Format::Json => output::json(&catalog, aliases).context("cannot print the instance types"),
            }
        }
        Command::Up(arguments) => up::run(arguments).map(|machine| output::standing(&machine)),
        Command::Down { root } => {
            Machine::down_at(&root.root)?;
            Ok(format!("nothing of the machine is left under {}\n", root.root.display()))
        }
        Command::Node(arguments) => node::run(arguments).map(|()| String::new()),
        Command::Agent(arguments) => agent::run(arguments).map(|()| String::new()),
        Command::Exec(_) | Command::Ls(_) | Command::Monitor(_) => Ok(String::new()),
        Command::Imds(arguments) => imds::run(arguments).map(|()| String::new()),
        Command::Guard => {
            guard();
            Ok(String::new())
        }
        Command::Fault(command) => fault::run(command),
        Command::Load(arguments) => load::run(arguments),
        Command::Record(arguments) => record::run(arguments),
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}

/// Does `work` on a thread until it is over; SIGTERM or Ctrl-C has `end` called, and the rest of it is waited for. Whether a signal
/// came.
fn until_signal<E: std::error::Error + Send + Sync + 'static>(
    work: impl FnOnce() -> Result<(), E> + Send + 'static,
    end: impl FnOnce(),
) -> anyhow::Result<bool> {
    tokio::runtime::Runtime::new().context("cannot start")?.block_on(async {
        let signal = runtime::until_signal()?;
        let mut work = tokio::task::spawn_blocking(work);
        let (done, interrupted) = tokio::select! {
            done = &mut work => (done, false),
            () = signal.cancelled() => {
                end();
                (work.await, true)
            }
        };
        done.context("the work was cut off")??;
        Ok(interrupted)
    })
}
