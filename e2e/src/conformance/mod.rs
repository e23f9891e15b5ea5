//! `neuron-e2e conformance`: the kit that carries out the cases of `plugin_conformance` with any device plugin, ours where no other
//! is named, on the embedded cluster or on kind. Called by the command line.

mod arguments;
mod embedded;
mod kind;
mod neuron_on_kind;
mod own_plugin;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use plugin_conformance::results::{CaseResult, Row, failures, summary, table};
use plugin_conformance::{CASES, Case, junit};

pub use arguments::Arguments;
pub use own_plugin::OwnPlugin;
pub(crate) use own_plugin::run as run_own_plugin;

use crate::command::ClusterKind;
use crate::report::{Output, print};

/// Carries the cases out and prints what was seen. Exit code 1 if one failed.
///
/// # Errors
/// Misuse, or a run that could not be carried out or tidied up after.
pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    arguments.check()?;
    let (output, file) = (arguments.output, arguments.junit.clone());
    let cases = chosen(&arguments.cases)?;
    let rows = match arguments.cluster {
        ClusterKind::Embedded => Some(embedded::run(arguments, &cases).await?),
        ClusterKind::Kind => kind::run(arguments, &cases).await?,
    };
    let Some(rows) = rows else { return Ok(ExitCode::SUCCESS) };
    if let Some(file) = file {
        write(&file, &rows)?;
    }
    match output {
        Output::Json => print::json(&rows)?,
        Output::Table => {
            print::line(format_args!("{}\n{}{}", table(&rows), failures(&rows), summary(&rows)))?;
        }
    }
    let failed = rows.iter().any(|row| row.result == CaseResult::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write(file: &Path, rows: &[Row]) -> anyhow::Result<()> {
    std::fs::write(file, junit::xml(rows))
        .with_context(|| format!("cannot write {} (--junit)", file.display()))
}

/// What is said of a case that is through.
fn progress(row: &Row) {
    print::progress(format_args!("{} {:6.2} s  {}: {}", row.word(), row.seconds, row.case, row.seen));
}

/// The cases whose names contain one of those given, whatever their case.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    let is_meant = |case: &Case, name: &str| case.name.to_lowercase().contains(&name.to_lowercase());
    for name in names {
        if !CASES.iter().any(|case| is_meant(case, name)) {
            let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            bail!("there is no case {name:?}; there are:\n{}", known.join("\n"));
        }
    }
    let wanted = |case: &&Case| names.is_empty() || names.iter().any(|name| is_meant(case, name));
    Ok(CASES.iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_parts_of_their_names() {
        assert_eq!(chosen(&[]).unwrap().len(), 32);
        assert_eq!(chosen(&["listandwatch".to_owned()]).unwrap().len(), 2);
        let wrong = chosen(&["reboots and more".to_owned()]).unwrap_err().to_string();
        assert!(
            wrong.starts_with("there is no case \"reboots and more\"; there are:\nCan schedule"),
            "{wrong}"
        );
    }
}
