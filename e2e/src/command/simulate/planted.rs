//! The planted bugs on the command line. Only in a build with `--cfg planted`, which `cargo xtask planted` makes.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use comfy_table::{Table, presets};
use neuron_e2e_simulation::PLANTED;

use crate::report::{Output, print};

/// In place of a bug's name.
pub(super) const LIST: &str = "list";

/// Takes the name of a planted bug, or [`LIST`].
pub(super) fn names() -> PossibleValuesParser {
    PLANTED.iter().map(|bug| bug.name).chain([LIST]).into()
}

/// Prints all planted bugs.
pub(super) fn list(output: Output) -> anyhow::Result<ExitCode> {
    match output {
        Output::Json => print::json(&PLANTED)?,
        Output::Table => {
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            table.add_rows(PLANTED.iter().map(|bug| [bug.name, bug.invariant, bug.what]));
            print::line(table)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
