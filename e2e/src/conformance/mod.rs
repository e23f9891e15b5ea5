//! `neuron-e2e conformance`: Kubernetes' own node e2e cases for device plugins, with ours. The cases are
//! `plugin_conformance`'s; here is what makes the cluster and describes our plugin. Called by the command line.

mod plugin;

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use kind_driver::phases::Phases;
use kind_driver::{unless_ended, with_nothing_left};
use plugin_conformance::results::{CaseResult, Row, failures, summary, table};
use plugin_conformance::{CASES, Case, FEATURE_GATES};
use tokio::time::Instant;

use crate::kind::{KindCluster, OWNER, Options, needs};
use crate::kind_arguments::{ImageArguments, node_image_of_environment};
use crate::report::{Output, print};
use plugin::NeuronPlugin;

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
    #[command(flatten)]
    images: ImageArguments,
    /// Fail where this machine cannot run kind, instead of skipping.
    #[arg(long)]
    require: bool,
}

/// Carries the cases out and prints what was seen. Exit code 1 if one failed.
///
/// # Errors
/// Misuse, or a run that could not be carried out or tidied up after.
pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { cases, output, grace, name, keep, node_image, images, require } = arguments;
    let cases = chosen(&cases)?;
    let node_image = node_image.or_else(node_image_of_environment);
    let feature_gates = FEATURE_GATES.map(str::to_owned).to_vec();
    let options = Options { name, workers: 1, keep, node_image, images: images.source(), feature_gates };
    match needs::missing(options.node_image.as_deref(), &options.images, 1).await {
        Some(why) if require => bail!("{why}"),
        Some(why) => {
            print::line(format_args!("skipped: {why}"))?;
            return Ok(ExitCode::SUCCESS);
        }
        None => {}
    }
    let mut rows = unless_ended(on_a_cluster(&cases, &options, grace)).await;
    if !keep {
        rows = with_nothing_left(rows, OWNER.left_behind(&options.name)).await;
    }
    let rows = rows?;
    match output {
        Output::Json => print::json(&rows)?,
        Output::Table => {
            print::line(format_args!("{}\n{}{}", table(&rows), failures(&rows), summary(&rows)))?;
        }
    }
    let failed = rows.iter().any(|row| row.result == CaseResult::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Carries the cases out on one cluster, which is gone afterwards unless it is to be kept.
async fn on_a_cluster(cases: &[&Case], options: &Options, grace: bool) -> anyhow::Result<Vec<Row>> {
    let phases = Phases::begin();
    let images = options.images.ready().await?;
    phases.reached("images");
    let cluster = KindCluster::up(options, &images, &phases).await?;
    let began = Instant::now();
    if let Err(error) = cluster.installed().await.context("installing the suite") {
        return Err(cluster.with_evidence("installing", error).await);
    }
    phases.done(format!("{}: suite serves", options.name), began);
    let plugin = NeuronPlugin::on(&cluster);
    let progress = |row: &Row| {
        print::progress(format_args!("{} {:6.2} s  {}: {}", row.word(), row.seconds, row.case, row.seen));
    };
    plugin_conformance::run(cluster.driver(), &plugin, cases, grace, progress).await
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
        assert_eq!(chosen(&[]).unwrap().len(), 24);
        assert_eq!(chosen(&["listandwatch".to_owned()]).unwrap().len(), 2);
        let wrong = chosen(&["reboots and more".to_owned()]).unwrap_err().to_string();
        assert!(
            wrong.starts_with("there is no case \"reboots and more\"; there are:\nCan schedule"),
            "{wrong}"
        );
    }
}
