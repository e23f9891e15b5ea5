//! Serves the routes over HTTP or HTTPS until the end. Called by [`crate::serve`].

mod bodies;
mod routes;
pub(crate) mod tls;
mod untaken;

use std::time::Duration;

use axum::Router;
use runtime::system::Listener;
use runtime::{Protocol, Server, System};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) use self::bodies::Bodies;
pub(crate) use self::routes::{Shared, router};
use self::tls::ServedTls;

/// Serves until `shutdown`; calls under way then have `grace` to end. Whenever `deposed` changes open connections are closed, as
/// kube-scheduler keeps them, and new ones may lead elsewhere.
pub(crate) async fn serve(
    system: System,
    listener: Box<dyn Listener>,
    routes: Router,
    tls: Option<ServedTls>,
    shutdown: CancellationToken,
    deposed: watch::Receiver<u64>,
    grace: Duration,
) {
    let server = match tls {
        Some(served) => Server::prepared_by(system, tls::prepare(served, routes), grace),
        None => Server::new(system, Protocol::Http1, routes, grace),
    };
    server.exposed().until_replaced(deposed).run(listener, shutdown).await;
}
