//! The port of `/healthz`. Called by `node` and `agent`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::routing::MethodRouter;
use runtime::system::Address;
use runtime::{Protocol, Server, System};
use tokio_util::sync::CancellationToken;

/// How long an open call may take at the end.
const GRACE: Duration = Duration::from_secs(1);

/// Serves `/healthz` at the address until `shutdown`.
///
/// # Errors
/// The address cannot be listened on.
pub(super) fn serve(
    address: SocketAddr,
    healthz: MethodRouter,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let system = System::real();
    let listener = system
        .listen(&Address::Tcp(address))
        .with_context(|| format!("cannot listen on {address} (--listen)"))?;
    let routes = Router::new().route("/healthz", healthz);
    let server = Server::new(system.clone(), Protocol::Http1, routes, GRACE);
    system.spawn(server.run(listener, shutdown));
    Ok(())
}
