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

/// Checks every crate of the workspace.
///
/// # Errors
/// A file that cannot be read, or anything that is against the rules.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let findings = look(&Workspace::read(&program::workspace_folder()?)?)?;
    match arguments.output {
        Format::Table => program::print(&lines::table(&findings.crates))?,
        Format::Json => program::print(&serde_json::to_string_pretty(&findings)?)?,
    }
    fail_on(&findings.problems)
}

fn look(workspace: &Workspace) -> anyhow::Result<Findings> {
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
    Ok(Findings { crates, problems })
}

fn fail_on(problems: &[String]) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;

    use super::*;
    use crate::crates::Crate;

    /// A crate of these files below `folder`.
    fn made(folder: &Path, name: &str, files: &[(&str, &str)]) -> Crate {
        let folder = folder.join(name);
        for (path, text) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Crate {
            name: name.to_owned(),
            roots: vec![folder.join("src/lib.rs")],
            folder,
            normal: BTreeSet::new(),
            development: BTreeSet::new(),
        }
    }

    #[test]
    fn a_cycle_is_described_by_its_files_and_fails() {
        let folder = tempfile::tempdir().unwrap();
        let tied = made(
            folder.path(),
            "tied",
            &[
                ("src/lib.rs", "mod a;\nmod b;\n"),
                ("src/a/mod.rs", "pub mod x; pub mod y; pub mod z;\n"),
                ("src/a/x.rs", "use crate::b::B;\npub struct X;\n"),
                ("src/a/y.rs", "use super::x::X;\npub struct Y;\n"),
                ("src/a/z.rs", "use super::x::X;\n"),
                ("src/b.rs", "use crate::a::{x::X, y::Y};\npub struct B;\n"),
            ],
        );
        let plain = |name| made(folder.path(), name, &[("src/lib.rs", "\n\n\n\n\n\n\n\n\n\n\n\n")]);
        let crates = vec![tied, plain("b"), plain("c"), plain("d"), plain("e")];
        let findings = look(&Workspace { crates, links: BTreeMap::new() }).unwrap();
        assert_eq!(
            findings.problems,
            [
                "tied: an import cycle spans folders: src/a/x.rs -> src/b.rs -> src/a/x.rs (and 1 more files are tied to \
                 these); move what several need into a file that imports none of them, or all of them into one folder"
            ]
        );
        let error = fail_on(&findings.problems).unwrap_err().to_string();
        assert!(error.starts_with("1 against docs/architecture.md §2:\n- tied: an import cycle"), "{error}");
        fail_on(&[]).unwrap();
    }
}
