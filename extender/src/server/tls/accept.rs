//! The handshake of one TLS connection, which tells who the client is and what it speaks. Used by the server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use futures::FutureExt as _;
use runtime::system::Connection;
use runtime::{Prepare, Prepared, Protocol, reached};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use super::common_name::common_name;
use super::{HTTP2, ServedTls};

/// Longest time for a handshake. Clients that say nothing would pile up otherwise.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The client: an extension of every request that comes over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Whether it showed a certificate. One that is not accepted has ended the handshake already.
    pub(crate) has_certificate: bool,
    /// The common name of the certificate's subject.
    pub(crate) name: Option<Arc<str>>,
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
            let session = stream.get_ref().1;
            let certificate = session.peer_certificates().and_then(<[_]>::first);
            let peer = Peer {
                has_certificate: certificate.is_some(),
                name: certificate.and_then(common_name).map(Arc::from),
            };
            // One who offers neither speaks HTTP/1.1.
            let is_http2 = session.alpn_protocol() == Some(HTTP2);
            let protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
            let connection = Connection::new(stream, client);
            Ok(Prepared { connection, protocol, routes: routes.layer(Extension(peer)) })
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
