//! `neuron-e2e conformance`: its arguments, and what it prints. Called by the command line.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::row::{Verdict, failures, summary, table};
use super::{CASES, Case, FEATURE_GATES, Session, session};
use crate::kind;
use crate::kind_arguments::node_image_of_environment;
use crate::report::Output;

/// The command line of `neuron-e2e conformance`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Cases, by any part of their names; all of them if none is given.
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// How to print what came of them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Also wait for the five minutes after which kubelet forgets the capacity of a plugin that is gone.
    #[arg(long)]
    grace: bool,
    /// Name of the kind cluster.
    #[arg(long, default_value = "neuron-e2e-conformance")]
    name: String,
    /// Leave the cluster running, and use one that an earlier run of this command left.
    #[arg(long)]
    keep: bool,
    /// Node image of the cluster; what NEURON_E2E_NODE_IMAGE says if not given.
    #[arg(long)]
    node_image: Option<String>,
    /// Do not build the suite's images again where they are there.
    #[arg(long)]
    skip_images: bool,
    /// Fail where this machine cannot run kind, instead of skipping.
    #[arg(long)]
    require: bool,
}

/// Carries the cases out and prints what was seen. Exit code 1 if one failed. An error is misuse, or
/// a run that could not be carried out or tidied up after.
pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { cases, output, grace, name, keep, node_image, skip_images, require } = arguments;
    let cases = chosen(&cases)?;
    let node_image = node_image.or_else(node_image_of_environment);
    let options =
        kind::Options { name, workers: 1, keep, node_image, skip_images, feature_gates: FEATURE_GATES };
    let rows = match session(&cases, options, grace).await? {
        Session::Skipped(why) if require => bail!("{why}"),
        Session::Skipped(why) => {
            println!("skipped: {why}");
            return Ok(ExitCode::SUCCESS);
        }
        Session::Ran(rows) => rows,
    };
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows)?),
        Output::Table => println!("{}\n{}{}", table(&rows), failures(&rows), summary(&rows)),
    }
    let failed = rows.iter().any(|row| row.result == Verdict::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
        assert_eq!(chosen(&[]).unwrap().len(), 21);
        assert_eq!(chosen(&["listandwatch".to_owned()]).unwrap().len(), 2);
        let wrong = chosen(&["reboots and more".to_owned()]).unwrap_err().to_string();
        assert!(
            wrong.starts_with("there is no case \"reboots and more\"; there are:\nCan schedule"),
            "{wrong}"
        );
    }
}
