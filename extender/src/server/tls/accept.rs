//! The handshake of one TLS connection, which tells whether the client showed a certificate. Used by the server.

use std::io;
use std::time::Duration;

use axum::{Extension, Router};
use futures::FutureExt as _;
use runtime::system::Connection;
use runtime::{Prepare, reached};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use super::ServedTls;

/// Longest time for a handshake. Clients that say nothing would pile up otherwise.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The client: an extension of every request that comes over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Whether it showed a certificate. One that is not accepted has ended the handshake already.
    pub(crate) has_certificate: bool,
}

/// Prepares connections by their handshakes, each by what is served when it is accepted. The routes get the [`Peer`].
pub(crate) fn prepare(served: ServedTls, routes: Router) -> Box<Prepare> {
    Box::new(move |connection| {
        let (acceptor, routes) = (TlsAcceptor::from(served.newest()), routes.clone());
        async move {
            let client = connection.peer().to_owned();
            let stream = shake_hands(acceptor, connection).await.inspect_err(|error| {
                reached("extender: TLS handshake failed");
                warn!(client, reason = error.to_string(), "TLS handshake failed");
            })?;
            let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let peer = Peer { has_certificate: !certificates.is_empty() };
            Ok((Connection::new(stream, client), routes.layer(Extension(peer))))
        }
        .boxed()
    })
}

async fn shake_hands(acceptor: TlsAcceptor, connection: Connection) -> io::Result<TlsStream<Connection>> {
    match timeout(HANDSHAKE, acceptor.accept(connection)).await {
        Ok(shaken) => shaken,
        Err(_) => {
            reached("extender: TLS handshake too slow");
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("it was not done within {HANDSHAKE:?}")))
        }
    }
}
