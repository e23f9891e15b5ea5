//! `neuron-e2e verify`: whether a suite that is installed works.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use kind_driver::signalled;
use testkit_support::Wait;

use crate::kind::WORKLOAD;
use crate::report::{Output, print};
use crate::verify::{CheckResult, Settings, line, summary, verify};
use crate::view::client::client;

/// Time between two looks at a pod.
const POLL: Duration = Duration::from_millis(250);

/// The command line of `neuron-e2e verify`.
#[derive(Clone, Debug, Args)]
pub(super) struct VerifyArguments {
    /// The cluster, as a context of the kubeconfig; the current one if not given.
    #[arg(long, value_name = "CTX")]
    context: Option<String>,
    /// The kubeconfig; what kubectl would use if not given.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Image of the pods: neuron-workload, under a name that the cluster can pull or has.
    #[arg(long, default_value = WORKLOAD)]
    image: String,
    /// Namespace of the pods.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Only look at nodes with this label, and have pods run on these; all Neuron nodes if not given.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    node_label: Option<(String, String)>,
    /// The scheduler that the pods name.
    #[arg(long, value_name = "NAME", default_value = "my-scheduler")]
    scheduler: String,
    /// Seconds that one pod may take until it runs and its record is right.
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// How to print what was seen.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Prints each check. Exit code 1 if one failed.
pub(super) async fn run(arguments: VerifyArguments) -> anyhow::Result<ExitCode> {
    let VerifyArguments { context, kubeconfig, image, namespace, node_label, scheduler, timeout, output } =
        arguments;
    let client = client(kubeconfig.as_deref(), context.as_deref()).await?;
    let wait = Wait { timeout: Duration::from_secs(timeout), poll: POLL };
    let settings = Settings { image, namespace, scheduler, node_label, wait };
    let checks = match output {
        Output::Table => {
            // A line that cannot be printed is no reason to leave pods behind.
            let progress = |check: &_| drop(print::line(line(check)));
            let checks = verify(&client, &settings, signalled(), progress).await?;
            print::line(summary(&checks))?;
            checks
        }
        Output::Json => {
            let checks =
                verify(&client, &settings, signalled(), |check| print::progress(line(check))).await?;
            print::json(&checks)?;
            checks
        }
    };
    let failed = checks.iter().any(|check| check.result == CheckResult::Failed);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
