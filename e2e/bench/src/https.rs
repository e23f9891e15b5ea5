//! HTTPS for the passing extender, with HTTP/2 for who speaks it, as ours has. Served by [`super::serve`].

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::serve::Listener;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::Certificate;

/// Connections behind their handshakes. One handshake follows the other: kube-scheduler opens few.
pub(super) struct Https {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Https {
    /// With the certificate in this folder.
    ///
    /// # Errors
    /// Its files cannot be read.
    pub(super) fn of(listener: TcpListener, folder: &Path) -> anyhow::Result<Self> {
        let files = Certificate::files(folder);
        let reading = |path: &Path| format!("reading {}", path.display());
        let certificate = CertificateDer::from_pem_file(&files.certificate);
        let certificate = certificate.with_context(|| reading(&files.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&files.key).with_context(|| reading(&files.key))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    async fn secured(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        // An answer is more than one frame of HTTP/2, and the second is not to wait until the first has been acknowledged.
        stream.set_nodelay(true)?;
        self.acceptor.accept(stream).await
    }
}

impl Listener for Https {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            match self.secured(stream).await {
                Ok(stream) => return (stream, address),
                Err(error) => tracing::warn!(%error, "a connection is not served"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
