//! `neuron-e2e list`: the names of the scenarios, and what each of them shows.

use std::process::ExitCode;

use clap::Args;
use neuron_e2e_engine::scenario::library;

use super::catalog::CatalogArguments;
use crate::report::{Output, print, tables};

/// The command line of `neuron-e2e list`.
#[derive(Clone, Debug, Args)]
pub(super) struct ListArguments {
    /// How to print them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    catalog: CatalogArguments,
}

/// Prints the scenarios.
pub(super) fn run(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let scenarios = library::all(&arguments.catalog.read()?)?;
    match arguments.output {
        Output::Table => print::line(tables::list(&scenarios)),
        Output::Json => {
            let rows: Vec<_> = scenarios
                .iter()
                .map(|one| serde_json::json!({"scenario": one.name, "tier": one.tier.name(), "about": one.about}))
                .collect();
            print::json(&rows)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}
