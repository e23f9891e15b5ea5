//! The scheduler extender: places pods on linked Neuron devices.
//!
//! kube-scheduler asks `/filter` which nodes can take a pod and has `/bind` choose the devices, record them on
//! the pod and bind it in one write. Pods are the record: whatever is known comes from watches of pods and nodes.

mod bind;
mod binding;
mod cluster;
mod config;
mod events;
mod explain;
mod filter;
mod index;
mod overlay;
mod routes;
mod seen;
mod shapes;
mod view;
mod watches;
mod wire;

use std::future::IntoFuture;
use std::sync::Arc;

use anyhow::bail;
use kube::Client;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::bind::Binder;
use crate::cluster::Cluster;
pub use crate::config::{Arguments, Config};
use crate::index::Index;
use crate::routes::{Shared, router};
use crate::shapes::Shapes;

/// Serves the extender on `listener` until `shutdown`; binds that are under way then are finished first.
pub async fn serve(
    config: Config,
    client: Client,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let catalog = Arc::new(config::catalog(config.catalog.as_deref())?);
    let cluster = Arc::new(Cluster::new(Index::new(Shapes::new(catalog, config.policy))));
    let mut tasks = JoinSet::new();
    tasks.spawn(watches::watch_pods(client.clone(), cluster.clone()));
    tasks.spawn(watches::watch_nodes(client.clone(), cluster.clone()));
    tasks.spawn(events::explain(client.clone(), cluster.clone()));

    let binder = Binder::new(cluster.clone(), client, &config);
    let app = router(Shared { cluster, binder: binder.clone() });
    let serving = axum::serve(listener, app).with_graceful_shutdown(shutdown.clone().cancelled_owned());
    let overdue = async {
        shutdown.cancelled().await;
        // Connections that the other side keeps open must not hold up the end.
        sleep(config.bind_deadline).await;
    };
    tokio::select! {
        served = serving.into_future() => served?,
        () = overdue => {}
        ended = tasks.join_next() => bail!("a task that must not end has ended: {ended:?}"),
    }
    if timeout(config.bind_deadline, binder.finish()).await.is_err() {
        warn!("binds were still under way at the end; the pods say what became of them");
    }
    Ok(())
}
