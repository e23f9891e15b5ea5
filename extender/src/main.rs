//! `neuron-extender`: the scheduler extender as a program.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use neuron_extender::{Arguments, CLASSIC_LINES, LogFormat, serve};
use runtime::System;
use runtime::system::Address;
use tracing::info;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.log_format {
        LogFormat::Text => runtime::log(runtime::LogFormat::Text),
        LogFormat::Json => runtime::log(runtime::LogFormat::Json),
        LogFormat::Classic => runtime::log_with_plain_lines(CLASSIC_LINES),
    }
    runtime::run_program("extender", run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    info!(?arguments, "effective configuration");
    let system = System::real();
    let client = runtime::client(arguments.kubeconfig.as_deref()).await?;
    let address = Address::Tcp(arguments.address());
    let listener = system.listen(&address).with_context(|| {
        format!("cannot listen on {address}; give another --listen or end what listens there")
    })?;
    let shutdown = runtime::until_signal()?;
    serve(system, arguments.config(), client, listener, shutdown).await
}
