//! `cargo xtask planted`: proves the simulator. It builds `neuron-e2e` with the planted bugs, and runs each until the invariant
//! that must find it has found it: by a signature that the same run does not show without the bug.

mod hunt;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{available_parallelism, scope};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Deserialize;

use self::hunt::{Found, Hunt};
use crate::program;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The bugs to look for; all of them, if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Simulated time for each seed, as `neuron-e2e simulate` takes it.
    #[arg(long = "for", default_value = "24h", value_name = "TIME")]
    time: String,
    /// Seeds to try for each bug that no kept plan must show, one after the other, from 0.
    #[arg(long, default_value_t = 24, value_name = "N")]
    seeds: u64,
    /// The nodes.
    #[arg(long, default_value = "trn1.32xlarge=2,inf2.48xlarge=1", value_name = "TYPE=NUMBER,..")]
    nodes: String,
    /// Folder for the build, which shares nothing with others; target/planted unless named.
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// How to print what came of it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// How to print.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// A bug, as the build tells of it.
#[derive(Clone, Debug, Deserialize)]
struct Bug {
    name: String,
    invariant: String,
    /// The kept plan that must show it, in place of seeds.
    plan: Option<String>,
}

/// Builds, and looks for every bug.
///
/// # Errors
/// A bug was not found; there is none of a name; the build or a simulation failed.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let workspace = program::workspace_folder()?;
    let target = arguments.target_dir.clone().unwrap_or_else(|| workspace.join("target/planted"));
    let program = build(&workspace, &target)?;
    let bugs = chosen(all(&program)?, &arguments.names)?;
    let hunt = Hunt {
        program,
        failures: target.join("failures"),
        time: arguments.time.clone(),
        nodes: arguments.nodes.clone(),
        seeds: arguments.seeds,
        plans: workspace.join("e2e/simulation/plans"),
        unplanted: Mutex::default(),
    };
    let found = look(&hunt, &bugs)?;
    let text = match arguments.output {
        Output::Table => report::table(&found),
        Output::Json => serde_json::to_string_pretty(&found)?,
    };
    program::print(&text)?;
    let missed: Vec<&str> =
        found.iter().filter(|found| found.signature.is_none()).map(|found| found.bug.as_str()).collect();
    ensure!(
        missed.is_empty(),
        "not found within {} seeds of {}, or in its kept plan: {}; is the invariant or the fault missing that shows it?",
        arguments.seeds,
        arguments.time,
        missed.join(", ")
    );
    Ok(())
}

/// The program with all planted bugs.
fn build(workspace: &Path, target: &Path) -> anyhow::Result<PathBuf> {
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let mut cargo = program::cargo();
    cargo.current_dir(workspace).env("RUSTFLAGS", format!("{flags} --cfg planted").trim());
    cargo.args(["build", "--locked", "--profile", "simulation", "--package", "neuron-e2e", "--target-dir"]);
    program::run(cargo.arg(target))?;
    Ok(target.join("simulation/neuron-e2e"))
}

/// Every bug that is planted.
fn all(program: &Path) -> anyhow::Result<Vec<Bug>> {
    let listed =
        program::output(Command::new(program).args(["simulate", "--planted", "list", "-o", "json"]))?;
    serde_json::from_str(&listed).context("the list of planted bugs is not understood")
}

fn chosen(all: Vec<Bug>, names: &[String]) -> anyhow::Result<Vec<Bug>> {
    for name in names {
        if all.iter().all(|bug| bug.name != *name) {
            let all: Vec<&str> = all.iter().map(|bug| bug.name.as_str()).collect();
            bail!("there is no planted bug {name}; there are {}", all.join(", "));
        }
    }
    let is_chosen = |bug: &Bug| names.is_empty() || names.contains(&bug.name);
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// Looks for the bugs, as many at one time as there are processors. In the order of `bugs`.
fn look(hunt: &Hunt, bugs: &[Bug]) -> anyhow::Result<Vec<Found>> {
    let next = AtomicUsize::new(0);
    let found: Mutex<BTreeMap<usize, anyhow::Result<Found>>> = Mutex::default();
    scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((place, bug)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|place| Some((place, bugs.get(place)?)))
                {
                    let result = hunt.look_for(bug);
                    if let Ok(found) = &result {
                        eprintln!("{}", report::line(found));
                    }
                    found.lock().unwrap_or_else(PoisonError::into_inner).insert(place, result);
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// Runs a simulation; what it prints, whether it has failed or not.
fn simulate(command: &mut Command) -> anyhow::Result<serde_json::Value> {
    let output = command.stdin(Stdio::null()).output().context("the simulation could not be started")?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let told = String::from_utf8_lossy(&output.stderr);
        anyhow::anyhow!("{command:?} broke off ({}): {}", output.status, told.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_told_with_all_that_are() {
        let all: Vec<Bug> =
            serde_json::from_str(r#"[{"name":"a","invariant":"x"},{"name":"b","invariant":"x"}]"#).unwrap();
        assert_eq!(chosen(all.clone(), &[]).unwrap().len(), 2);
        assert_eq!(chosen(all.clone(), &["b".to_owned()]).unwrap()[0].name, "b");
        let told = chosen(all, &["c".to_owned()]).unwrap_err().to_string();
        assert_eq!(told, "there is no planted bug c; there are a, b");
    }
}
