//! `neuron-device-plugin`: reads the command line, then [`neuron_device_plugin::run`].

use std::process::ExitCode;

use clap::Parser as _;
use neuron_device_plugin::Arguments;
use runtime::System;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    runtime::log(arguments.log_format);
    runtime::run_program("device plugin", run(arguments))
}

#[allow(clippy::disallowed_methods, reason = "the program runs on this machine")]
async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let client = runtime::client(arguments.kubeconfig.as_deref()).await?;
    let shutdown = runtime::until_signal()?;
    neuron_device_plugin::run(System::real(), arguments.config(), client, shutdown).await
}
