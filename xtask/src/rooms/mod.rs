//! `cargo xtask rooms`: whether the modules of each crate stand in rooms of their own, and how large the crates are. An
//! import cycle may tie the files of one folder together, but not those of several; no crate holds a quarter of all lines.

mod cycles;
mod imports;
mod lines;
mod modules;

use std::path::Path;

use anyhow::bail;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::crates::Workspace;
use crate::program;

#[derive(Args)]
pub(crate) struct Arguments {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// What was found, as `-o json` prints it.
#[derive(Serialize)]
struct Findings {
    crates: Vec<lines::Lines>,
    problems: Vec<String>,
}

/// Checks every crate of the workspace. Errors: a file that cannot be read, or anything that is against the rules.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = program::workspace_folder()?;
    let workspace = Workspace::read(&folder)?;
    let mut problems = Vec::new();
    let mut crates = Vec::new();
    for known in &workspace.crates {
        crates.push(lines::of(&known.name, &known.folder)?);
        for root in &known.roots {
            for cycle in cycles::across_folders(&imports::between_files(&modules::of(root)?)) {
                problems.push(format!("{}: {}", known.name, described(&cycle, &known.folder)));
            }
        }
    }
    problems.extend(lines::too_large(&crates));
    let findings = Findings { crates, problems };
    match arguments.output {
        Format::Table => program::print(&lines::table(&findings.crates))?,
        Format::Json => program::print(&serde_json::to_string_pretty(&findings)?)?,
    }
    let problems = findings.problems;
    if !problems.is_empty() {
        bail!("{} against docs/architecture.md §2:\n- {}", problems.len(), problems.join("\n- "));
    }
    Ok(())
}

fn described(cycle: &cycles::Cycle, crate_folder: &Path) -> String {
    let name = |file: &Path| file.strip_prefix(crate_folder).unwrap_or(file).display().to_string();
    let files: Vec<String> = cycle.files.iter().chain(cycle.files.first()).map(|file| name(file)).collect();
    let tangled = match cycle.tangled - cycle.files.len() {
        0 => String::new(),
        more => format!(" (and {more} more files are tied to these)"),
    };
    format!(
        "an import cycle spans folders: {}{tangled}; move what several need into a file that imports none of them, or all of \
         them into one folder",
        files.join(" -> ")
    )
}
