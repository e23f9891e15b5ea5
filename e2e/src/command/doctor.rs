//! `neuron-e2e doctor`: what this machine lacks for runs on kind.

use std::process::ExitCode;

use clap::Args;

use crate::kind;
use crate::kind_arguments::node_image_of_environment;
use crate::report::{Output, print};

/// The command line of `neuron-e2e doctor`.
#[derive(Clone, Debug, Args)]
pub(super) struct DoctorArguments {
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// Prints every finding. Exit code 1 if something is missing.
pub(super) async fn run(arguments: DoctorArguments) -> anyhow::Result<ExitCode> {
    let image = node_image_of_environment();
    let findings = kind::needs::look(image.as_deref(), kind::needs::CLUSTERS).await;
    match arguments.output {
        Output::Table => {
            for finding in &findings {
                print::line(finding)?;
            }
        }
        Output::Json => print::json(&findings)?,
    }
    let healthy = findings.iter().all(|finding| finding.found.is_ok());
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
