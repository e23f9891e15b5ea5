//! What a program may do with sockets. Implemented by this machine (`real`) and by simulated ones.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The sockets of a machine. Errors are of the kinds that Linux gives.
pub trait Sockets: Send + Sync {
    /// See [`super::handle::System::listen`].
    ///
    /// # Errors
    /// See there.
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>>;

    /// See [`super::handle::System::connect`].
    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>>;
}

/// Where somebody listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port of an IP address.
    Tcp(SocketAddr),
    /// The path of a socket, at most 107 bytes.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Takes connections.
pub trait Listener: Send {
    /// The next connection. Cancelling the future loses none.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>>;

    /// Where it listens: with the port that it got, where port 0 was asked for.
    fn address(&self) -> Address;
}

/// A stream of bytes both ways.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection.
pub struct Connection {
    stream: Box<dyn Io>,
    peer: String,
}

impl Connection {
    /// A connection to `peer`, as logs call it.
    pub fn new(stream: impl Io + 'static, peer: impl Into<String>) -> Self {
        Self { stream: Box::new(stream), peer: peer.into() }
    }

    /// Who is on the other side, for logs: an address, or nothing where it has none.
    pub fn peer(&self) -> &str {
        &self.peer
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
