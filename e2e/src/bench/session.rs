//! `bench scheduler` from beginning to end: what it needs, the measurement, nothing left, the report.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::scheduler::{self, Size};
use super::variant::Form;
use crate::kind::session::{unless_ended, with_nothing_left};
use crate::kind::{bare, doctor};
use crate::kind_arguments::node_image_of_environment;
use crate::report::Output;

/// The command line of `bench scheduler`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// How many trn1.32xlarge nodes, minded by kwok.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
    /// How many pods wait, each for one device.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(2..=16000))]
    pods: u16,
    /// How often everything is measured; medians need some.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Measure only what an extender costs that is sent this of nodes; both if not given.
    #[arg(long, value_enum)]
    form: Option<Form>,
    /// How to print what came of it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Name of the kind cluster.
    #[arg(long, default_value = "neuron-bench")]
    name: String,
    /// Node image of the cluster; what NEURON_E2E_NODE_IMAGE says if not given.
    #[arg(long)]
    node_image: Option<String>,
    /// Fail where this machine cannot run kind or kwok, instead of skipping.
    #[arg(long)]
    require: bool,
}

/// Measures and prints. An error also where a signal ended it or something stayed behind.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Arguments { nodes, pods, rounds, form, output, name, node_image, require } = arguments;
    let node_image = node_image.or_else(node_image_of_environment);
    let size = Size { nodes: nodes.into(), pods: pods.into(), rounds: rounds.into(), form };
    if size.pods > size.nodes * 16 {
        bail!("{nodes} nodes have {} devices, {pods} pods ask for more; give more --nodes", size.nodes * 16);
    }
    let mut findings = doctor::look(node_image.as_deref(), 1).await;
    findings.push(doctor::kwok().await);
    for finding in findings {
        match finding.found {
            Ok(_) => {}
            Err(why) if require => bail!("{}: {why}", finding.what),
            Err(why) => {
                println!("skipped: {}: {why}", finding.what);
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    if cfg!(debug_assertions) {
        eprintln!(
            "neuron-e2e: this is a debug build, and so are the extenders it compares; build with --release"
        );
    }
    let report = unless_ended(scheduler::measure(&name, node_image, size)).await;
    let report = with_nothing_left(report, bare::left_behind(&name)).await?;
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Table => print!("{}", report.told()),
    }
    Ok(ExitCode::SUCCESS)
}
