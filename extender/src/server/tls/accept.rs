//! The handshake of one TLS connection, which tells whether the client showed a certificate. Used by the server.

use std::io;

use axum::Extension;
use axum::middleware::AddExtension;
use axum_server::accept::Accept;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tower::Layer;
use tracing::warn;

/// The client: an extension of every request that comes over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Whether it showed a certificate. One that is not accepted has ended the handshake already.
    pub(crate) has_certificate: bool,
}

/// Accepts TLS connections.
#[derive(Clone)]
pub(crate) struct TlsAcceptor {
    rustls: RustlsAcceptor,
}

impl TlsAcceptor {
    /// An acceptor that takes the newest configuration for each connection.
    pub(crate) fn new(config: RustlsConfig) -> Self {
        Self { rustls: RustlsAcceptor::new(config) }
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for TlsAcceptor {
    type Stream = <RustlsAcceptor as Accept<TcpStream, S>>::Stream;
    type Service = AddExtension<S, Peer>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let address = stream.peer_addr();
        let handshake = self.rustls.accept(stream, service);
        async move {
            let (stream, service) = handshake.await.inspect_err(|error| {
                let client = address.map(|address| address.to_string()).unwrap_or_default();
                warn!(client, reason = error.to_string(), "TLS handshake failed");
            })?;
            let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let peer = Peer { has_certificate: !certificates.is_empty() };
            Ok((stream, Extension(peer).layer(service)))
        }
        .boxed()
    }
}
