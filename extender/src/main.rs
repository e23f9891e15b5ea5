//! `neuron-extender`: the scheduler extender as a program.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use neuron_extender::{Arguments, serve};
use tokio::net::TcpListener;
use tracing::{error, info};

// One thread: nearly all is waiting, and to wake another thread costs more than most of what it would do.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    runtime::log();
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(reason = format!("{error:#}"), "the extender failed");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    info!(?arguments, "effective configuration");
    let client = runtime::client(arguments.kubeconfig.as_deref()).await?;
    let address = arguments.address();
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; give another --listen or end what listens there")
    })?;
    let shutdown = runtime::until_signal()?;
    serve(arguments.config(), client, listener, shutdown).await
}
