//! Chores about whole crates: who may know whom, and each crate alone.

mod arrows;
mod metadata;
mod rules;

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use crate::program;
pub(crate) use metadata::{Crate, Workspace};

/// `cargo xtask arrows`. Errors: an arrow that docs/architecture.md §2 does not have.
pub(crate) fn check_arrows() -> anyhow::Result<()> {
    let workspace = Workspace::read(&program::workspace_folder()?)?;
    let problems = arrows::problems(&workspace, rules::ROWS);
    if !problems.is_empty() {
        bail!("{} wrong (docs/architecture.md §2):\n- {}", problems.len(), problems.join("\n- "));
    }
    let arrows: usize = workspace.crates.iter().map(|known| known.normal.len()).sum();
    program::print(&format!("{} crates, {arrows} arrows between them, all allowed", workspace.crates.len()))
}

/// `cargo xtask each-alone`. Errors: a crate that does not compile alone.
pub(crate) fn check_each_alone() -> anyhow::Result<()> {
    let folder = program::workspace_folder()?;
    for known in Workspace::read(&folder)?.crates {
        program::run(&mut check_alone(&folder, &known))?;
    }
    Ok(())
}

fn check_alone(folder: &Path, known: &Crate) -> Command {
    let mut cargo = program::cargo();
    cargo.current_dir(folder).args(["check", "--quiet", "--all-targets", "--package", &known.name]);
    cargo
}
