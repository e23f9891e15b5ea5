//! `neuron-e2e bench`: what the suite costs. Measured by `neuron_e2e_bench`.

use std::process::ExitCode;

use anyhow::ensure;
use clap::{Args, Subcommand};
use neuron_e2e_bench::{ExtenderArguments, MeasureArguments, Measurement, Setting};
use tokio::runtime::Builder;

use super::cluster_kind::skipped;
use super::wait_for;
use crate::kind::OWNER;
use crate::kind::needs::NODE_IMAGE_VARIABLE;
use crate::kind::updates::{self, Updates};
use crate::kind_arguments::{KindArguments, node_image_of_environment};
use crate::report::{Output, print};

/// What can be measured.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Pods per second through the real kube-scheduler: without an extender, with one that only passes and binds,
    /// and with ours.
    Scheduler(SchedulerArguments),
    /// How long kubelet offers less than the node has while the device plugin is updated, on kind, and which pods fail. Exit code 1 if
    /// that was more than two seconds, or a pod failed for something else.
    PluginUpdate(PluginUpdateArguments),
    /// One of the extenders that are compared, as a process of its own; `bench scheduler` starts it.
    #[command(hide = true)]
    Extender(ExtenderArguments),
}

/// The command line of `bench scheduler`.
#[derive(Clone, Debug, Args)]
pub(super) struct SchedulerArguments {
    #[command(flatten)]
    measure: MeasureArguments,
    /// How to print what came of it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Fail where this machine cannot run kind or kwok, instead of skipping.
    #[arg(long)]
    require: bool,
}

/// The command line of `bench plugin-update`.
#[derive(Clone, Debug, Args)]
pub(super) struct PluginUpdateArguments {
    /// How often the plugin is updated, one after the other.
    #[arg(long, default_value_t = 50)]
    updates: usize,
    /// The instance type of the only worker.
    #[arg(long, default_value = "trn1.32xlarge", value_name = "TYPE")]
    instance_type: String,
    /// How to print what came of it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    #[command(flatten)]
    kind: KindArguments,
}

/// Measures. Exit code 0 also where this machine lacks something and nothing was measured, unless it is required.
pub(super) fn run(command: BenchCommand) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Scheduler(arguments) => wait_for(scheduler(arguments)),
        BenchCommand::PluginUpdate(arguments) => wait_for(plugin_update(arguments)),
        BenchCommand::Extender(arguments) => {
            // One thread, as neuron-extender itself has.
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(neuron_e2e_bench::serve_extender(arguments)).map(|()| ExitCode::SUCCESS)
        }
    }
}

async fn scheduler(arguments: SchedulerArguments) -> anyhow::Result<ExitCode> {
    let SchedulerArguments { measure, output, require } = arguments;
    if cfg!(debug_assertions) {
        print::progress(
            "neuron-e2e: this is a debug build, and so are the extenders it compares; build with --release",
        );
    }
    let setting = Setting {
        owner: OWNER,
        node_image: node_image_of_environment(),
        node_image_setting: NODE_IMAGE_VARIABLE,
    };
    match neuron_e2e_bench::measure(measure, setting).await? {
        Measurement::Lacking(why) => return skipped(&why, require),
        Measurement::Done(report) => match output {
            Output::Json => print::json(&report)?,
            Output::Table => print::line(report.text().trim_end())?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

async fn plugin_update(arguments: PluginUpdateArguments) -> anyhow::Result<ExitCode> {
    let PluginUpdateArguments { updates, instance_type, output, kind } = arguments;
    let require = kind.require;
    ensure!(
        kind.scheduling.is_empty(),
        "bench plugin-update places its pods by my-scheduler; leave --scheduling out"
    );
    match updates::measure(&kind.options(1), &instance_type, updates).await? {
        Err(why) => skipped(&why, require),
        Ok(measured) => {
            match output {
                Output::Json => print::json(&measured)?,
                Output::Table => print::line(table(&measured))?,
            }
            let failures = measured.failures();
            failures.iter().for_each(print::progress);
            Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

fn table(measured: &Updates) -> String {
    let Updates { updates, kubernetes, seconds_each, on_node, by_api, pods } = measured;
    let mut text = format!("{updates} updates on Kubernetes {kubernetes}, {seconds_each:.1} s each\n");
    for (by, gaps) in [("kubelet", on_node), ("the Node's allocatable", by_api)] {
        let (count, longest, median) = (gaps.gaps, gaps.longest, gaps.median);
        let open = if gaps.open { ", the last one not ended" } else { "" };
        text.push_str(&format!(
            "by {by}: {count} gaps, longest {longest:.2} s, median {median:.2} s{open}\n"
        ));
    }
    text.push_str(&format!(
        "{} pods ran meanwhile, {} failed",
        pods.ran,
        pods.failed.values().sum::<usize>()
    ));
    for (why, count) in &pods.failed {
        text.push_str(&format!("\n  {count}x {why}"));
    }
    text
}
