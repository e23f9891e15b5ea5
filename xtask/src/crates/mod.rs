//! Chores about whole crates: who may know whom, and each crate alone.

mod arrows;
mod metadata;
mod rules;

use std::path::Path;
use std::process::Command;

use anyhow::bail;

use crate::program;
pub(crate) use metadata::{Crate, Workspace};
use rules::Row;

/// `cargo xtask arrows`.
///
/// # Errors
/// An arrow that docs/architecture.md §2 does not have.
pub(crate) fn check_arrows() -> anyhow::Result<()> {
    let workspace = Workspace::read(&program::workspace_folder()?)?;
    program::print(&told(&workspace, rules::ROWS)?)
}

fn told(workspace: &Workspace, rows: &[Row]) -> anyhow::Result<String> {
    let problems = arrows::problems(workspace, rows);
    if !problems.is_empty() {
        bail!("{} wrong (docs/architecture.md §2):\n- {}", problems.len(), problems.join("\n- "));
    }
    let arrows: usize = workspace.crates.iter().map(|known| known.normal.len()).sum();
    Ok(format!("{} crates, {arrows} arrows between them, all allowed", workspace.crates.len()))
}

/// `cargo xtask each-alone`.
///
/// # Errors
/// A crate that does not compile alone.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_problem_fails_and_none_is_told_in_numbers() {
        let workspace = Workspace { crates: Vec::new(), links: BTreeMap::new() };
        assert_eq!(told(&workspace, &[]).unwrap(), "0 crates, 0 arrows between them, all allowed");
        let error = told(&workspace, rules::ROWS).unwrap_err().to_string();
        assert!(
            error.contains(" wrong (docs/architecture.md §2):\n- row neuron-core is of no crate"),
            "{error}"
        );
    }

    #[test]
    fn a_crate_is_checked_with_all_its_targets_and_no_other() {
        let known = Crate {
            name: "a".to_owned(),
            folder: "/nowhere/a".into(),
            roots: Vec::new(),
            normal: [].into(),
            development: [].into(),
        };
        let command = check_alone(Path::new("/nowhere"), &known);
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_str().unwrap()).collect();
        assert_eq!(arguments, ["check", "--quiet", "--all-targets", "--package", "a"]);
        assert_eq!(command.get_current_dir().unwrap(), Path::new("/nowhere"));
    }
}
