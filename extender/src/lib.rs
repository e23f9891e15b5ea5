//! The scheduler extender: places pods on linked Neuron devices.
//!
//! kube-scheduler asks `/filter` which nodes can take a pod and has `/bind` choose the devices, record them on
//! the pod and bind it in one write. Pods are the record: whatever is known comes from watches of pods and nodes.
//!
//! It runs wherever there is a client of an API server; a program takes `runtime::client`, this example one in memory:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! use fake_cluster::{api::ApiServer, clock::Clock};
//! use neuron_extender::{Config, serve};
//! use tokio::net::TcpListener;
//! use tokio_util::sync::CancellationToken;
//!
//! let client = ApiServer::new(Clock::new()).client();
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let shutdown = CancellationToken::new();
//! let serving = tokio::spawn(serve(Config::default(), client, listener, shutdown.clone()));
//! shutdown.cancel();
//! serving.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Where things are: `server` takes calls, `verbs` answers them from the `index`, which the `watches` keep, and
//! `events` explains to users what they would not see otherwise.

mod config;
mod events;
mod index;
mod protobuf;
mod server;
mod verbs;
mod watches;
mod wire;

use std::sync::Arc;

use anyhow::bail;
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use crate::config::{Arguments, Config};
use crate::index::{Cluster, Index, TopologyCache};
use crate::server::tls::LiveTls;
pub use crate::server::tls::TlsFiles;
use crate::server::{Shared, router};
use crate::verbs::Filter;
use crate::verbs::bind::{BindTimeouts, Binder};

/// Serves the extender on `listener` until `shutdown`; binds that are under way then are finished first.
///
/// HTTPS if the configuration names TLS files, else HTTP. The files are followed: new connections get what is
/// in them, open ones go on, and files that cannot be used are logged and change nothing.
///
/// # Errors
/// The catalog or TLS files cannot be used, or the listener fails.
pub async fn serve(
    config: Config,
    client: Client,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let catalog = Arc::new(config::catalog(config.catalog.as_deref())?);
    let tls = config.tls.clone().map(LiveTls::open).transpose()?;
    let cluster = Arc::new(Cluster::new(Index::new(TopologyCache::new(catalog, config.policy))));
    let mut tasks = JoinSet::new();
    tasks.spawn(watches::watch_pods(client.clone(), cluster.clone()));
    tasks.spawn(watches::watch_nodes(client.clone(), cluster.clone()));
    tasks.spawn(events::explain(client.clone(), cluster.clone(), config.event_delay));

    let timeouts = BindTimeouts { bind: config.bind_deadline, binding: config.binding_timeout };
    let binder = Binder::new(cluster.clone(), client, timeouts);
    let certificate_required = config.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
    let routes = router(
        Shared { filter: Filter::new(cluster.clone()), cluster, binder: binder.clone() },
        certificate_required,
    );
    let tls = tls.map(|live| {
        let served = live.config();
        tasks.spawn(live.follow());
        served
    });
    // Connections that the other side keeps open must not hold up the end.
    let serving = server::serve(listener, routes, tls, shutdown, config.bind_deadline);
    tokio::select! {
        served = serving => served?,
        ended = tasks.join_next() => bail!("a task that must not end has ended: {ended:?}"),
    }
    info!(timeout = ?config.bind_deadline, "binds under way are finished first");
    if timeout(config.bind_deadline, binder.finish()).await.is_err() {
        warn!(timeout = ?config.bind_deadline, "binds are still under way at the end; their pods say what becomes of them");
    }
    Ok(())
}
