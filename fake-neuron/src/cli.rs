//! The command line: its commands, and which part of the library carries each out. Called by `main`.

mod node;
mod output;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand, ValueEnum};
use fake_neuron::{CatalogFileError, Machine, MachineSpec, read_catalog};
use neuron_core::catalog::Catalog;

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
    Up {
        /// EC2 instance type or alias, such as trn2.48xlarge.
        #[arg(long, value_name = "TYPE")]
        instance_type: String,
        /// Physical cores in one logical core, 2 only on Trn2 and Trn3 [default: no setting, so the type's own].
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
        lnc: Option<u8>,
        /// EC2 instance id that DMI shows [default: made from the type's name].
        #[arg(long, value_name = "ID")]
        instance_id: Option<String>,
        /// The driver's line, by whose layout the tree is made: 2.21, 2.24, 2.28, 2.30 or 2.31-unknown [default: the newest that
        /// serves the type and whose layout is known].
        #[arg(long, value_name = "LINE")]
        driver: Option<String>,
        #[command(flatten)]
        catalog: CatalogFile,
        #[command(flatten)]
        root: Root,
    },
    /// Remove the machine: exactly what `up` made.
    Down {
        #[command(flatten)]
        root: Root,
    },
    /// Stay and keep a Kubernetes node's machine as its label and annotations ask.
    Node(node::Arguments),
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

/// Exit codes: 0 done, 1 failed, 2 asked for wrongly.
pub(crate) fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help that nobody reads any more, as in `fake-neuron --help | head -1`, is no failure.
            let _ = usage.print();
            return ExitCode::from(if usage.use_stderr() { 2 } else { 0 });
        }
    };
    match execute(cli.command).and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "fake-neuron: {error:#}");
            if error.is::<CatalogFileError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
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
        Command::Up { instance_type, lnc, instance_id, driver, catalog, root } => {
            let spec = MachineSpec { instance_type, lnc, instance_id, driver };
            let machine = Machine::up(&spec, &root.root, &*catalog.read()?)?;
            Ok(output::standing(&machine))
        }
        Command::Down { root } => {
            Machine::down_at(&root.root)?;
            Ok(format!("nothing of the machine is left under {}\n", root.root.display()))
        }
        Command::Node(arguments) => node::run(arguments).map(|()| String::new()),
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}
