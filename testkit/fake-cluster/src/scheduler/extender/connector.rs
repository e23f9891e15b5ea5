//! Connections of the HTTP client to extenders, over the sockets of the scheduler's [`System`]. Used by `transport`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use runtime::System;
use runtime::system::Address;
use tower::Service;

/// Dials the host of an address.
#[derive(Clone)]
pub(super) struct Connector {
    system: System,
}

impl Connector {
    pub(super) fn new(system: &System) -> Self {
        Self { system: system.clone() }
    }
}

impl Service<Uri> for Connector {
    type Response = Dialled;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Dialled>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let system = self.system.clone();
        async move {
            let address = Address::Tcp(socket_address(&uri)?);
            Ok(Dialled(TokioIo::new(system.connect(&address).await?)))
        }
        .boxed()
    }
}

/// The IP address and port of plain HTTP. There is no name server in the cluster, so a name has no address, as Go says it.
fn socket_address(uri: &Uri) -> io::Result<SocketAddr> {
    let host = uri.host().unwrap_or_default();
    let ip: Result<IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
    let ip = ip.map_err(|_| io::Error::other(format!("dial tcp: lookup {host}: no such host")))?;
    Ok(SocketAddr::new(ip, uri.port_u16().unwrap_or(80)))
}

/// An open connection.
pub(super) struct Dialled(TokioIo<runtime::system::Connection>);

impl Connection for Dialled {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::with_a_port("http://127.0.0.1:12345/filter", "127.0.0.1:12345")]
    #[case::without_a_port("http://10.0.0.1/filter", "10.0.0.1:80")]
    #[case::version_6("http://[::1]:12345/", "[::1]:12345")]
    fn the_host_of_an_address_is_dialled(#[case] uri: &str, #[case] dialled: &str) {
        assert_eq!(socket_address(&uri.parse().unwrap()).unwrap().to_string(), dialled);
    }

    #[test]
    fn a_name_is_refused_in_gos_words() {
        let error = socket_address(&"http://extender:12345/filter".parse().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "dial tcp: lookup extender: no such host");
    }
}
