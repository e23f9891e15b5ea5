//! `fake-neuron node`: the command line around [`fake_neuron::node::Keeper`], its `/healthz` and its end. Called by `cli`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use axum::http::StatusCode;
use axum::routing::get;
use clap::Args;
use fake_neuron::node::{Keeper, State, remove};
use neuron_core::catalog::Catalog;
use tokio::sync::watch;

use super::{CatalogFile, health};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The node this runs on, as the API server calls it.
    #[arg(long, env = "NODE_NAME", value_name = "NODE")]
    node_name: String,
    /// Folder that the machine's /dev, /sys, /proc and /opt stand in.
    #[arg(long, env = "NEURON_ROOT", value_name = "DIR")]
    root: PathBuf,
    #[command(flatten)]
    catalog: CatalogFile,
    /// Address for /healthz, such as 127.0.0.1:8080; not served without it.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Remove the hardware when ended; without it the node keeps it, as a node keeps its devices.
    #[arg(long)]
    cleanup: bool,
    /// Kubeconfig file; without it KUBECONFIG, ~/.kube/config or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Runs until SIGTERM or Ctrl-C.
///
/// # Errors
/// A catalog file that cannot be used, no way to an API server, an address that cannot be listened on.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let catalog = arguments.catalog.read()?.into_owned();
    runtime::log(runtime::LogFormat::Text);
    tokio::runtime::Runtime::new().context("cannot start")?.block_on(keep(arguments, catalog))
}

async fn keep(arguments: Arguments, catalog: Catalog) -> anyhow::Result<()> {
    let shutdown = runtime::until_signal()?;
    let client = runtime::client(arguments.kubeconfig.as_deref()).await?;
    let (sender, state) = watch::channel(State::Waiting);
    if let Some(address) = arguments.listen {
        health::serve(address, get(async move || healthz(&state.borrow())), shutdown.clone())?;
    }
    let keeper =
        Keeper { node: arguments.node_name, root: arguments.root, catalog: Arc::new(catalog), state: sender };
    keeper.run(client, shutdown).await;
    if arguments.cleanup {
        remove(&keeper.root, None)?;
    }
    Ok(())
}

fn healthz(state: &State) -> (StatusCode, String) {
    match state {
        State::Waiting => (StatusCode::SERVICE_UNAVAILABLE, "the node has not been seen yet".to_owned()),
        State::Stands(Some(instance_type)) => (StatusCode::OK, format!("{instance_type} stands")),
        State::Stands(None) => (StatusCode::OK, "the node asks for no hardware".to_owned()),
        State::Failed(error) => (StatusCode::SERVICE_UNAVAILABLE, error.clone()),
    }
}
