//! Serves the routes over HTTP or HTTPS until the end. Called by [`crate::serve`].

mod routes;
pub(crate) mod tls;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use axum_server::{Handle, Server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) use self::routes::{Shared, router};
use self::tls::TlsAcceptor;

/// Serves until `shutdown`; calls under way then have `grace` to end.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    tls: Option<RustlsConfig>,
    shutdown: CancellationToken,
    grace: Duration,
) -> io::Result<()> {
    let handle = Handle::new();
    let server = Server::<SocketAddr>::from_listener(listener).handle(handle.clone());
    let service = routes.into_make_service();
    let serving = async {
        match tls {
            Some(config) => server.acceptor(TlsAcceptor::new(config)).http1_only().serve(service).await,
            None => server.http1_only().serve(service).await,
        }
    };
    let ending = async {
        shutdown.cancelled().await;
        handle.graceful_shutdown(Some(grace));
        std::future::pending().await
    };
    tokio::select! {
        served = serving => served,
        never = ending => never,
    }
}
