//! `neuron-extender`: the scheduler extender as a program.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use neuron_extender::{Arguments, serve};
use runtime::System;
use runtime::system::Address;
use tracing::info;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    runtime::log(arguments.log_format);
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
