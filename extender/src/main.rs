//! `neuron-extender`: the scheduler extender as a program.

use std::process::ExitCode;

use anyhow::Context;
use neuron_extender::{CLASSIC_LINES, LogFormat, Settings, serve};
use runtime::System;
use runtime::system::Address;
use tracing::info;

fn main() -> ExitCode {
    let settings = Settings::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match settings.arguments.log_format {
        LogFormat::Text => runtime::log(runtime::LogFormat::Text),
        LogFormat::Json => runtime::log(runtime::LogFormat::Json),
        LogFormat::Classic => runtime::log_with_plain_lines(CLASSIC_LINES),
    }
    runtime::run_program("extender", run(settings))
}

async fn run(settings: Settings) -> anyhow::Result<()> {
    let Settings { arguments, effective } = settings;
    info!(flags = effective.to_string(), "effective configuration");
    let system = System::real();
    let client = runtime::client(arguments.kubeconfig.as_deref()).await?;
    let address = Address::Tcp(arguments.address());
    let listener = system.listen(&address).with_context(|| {
        format!("cannot listen on {address}; give another --listen or end what listens there")
    })?;
    let shutdown = runtime::until_signal()?;
    serve(system, arguments.config(), client, listener, shutdown).await
}
