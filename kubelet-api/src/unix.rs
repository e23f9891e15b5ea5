//! tonic over Unix sockets: a client dials one, a server listens on one.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use hyper::rt::Executor;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint};

/// Longest socket path in bytes: `sockaddr_un.sun_path` has 108 bytes, one of them the closing zero (unix(7)).
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// A socket that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is longer than [`MAX_SOCKET_PATH_BYTES`].
    #[error("socket path {} has {bytes} bytes, at most {MAX_SOCKET_PATH_BYTES} fit; use a shorter folder", path.display())]
    PathTooLong {
        /// Path of the socket, as the caller gave it.
        path: PathBuf,
        /// Its length in bytes.
        bytes: usize,
    },
    /// The socket does not exist, or no server accepts connections on it.
    #[error("cannot reach {}; is somebody listening on it?", path.display())]
    Connect {
        /// Path of the socket, as the caller gave it.
        path: PathBuf,
        /// What the transport said.
        source: tonic::transport::Error,
    },
    /// The socket could not be created.
    #[error("cannot listen on {}; does its folder exist, and is the file not there yet?", path.display())]
    Listen {
        /// Path of the socket, as the caller gave it.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Checks the length of a socket's path, before its folder is made for it.
///
/// # Errors
/// [`SocketError::PathTooLong`].
pub fn check_path(path: &Path) -> Result<(), SocketError> {
    let bytes = path.as_os_str().len();
    if bytes > MAX_SOCKET_PATH_BYTES {
        return Err(SocketError::PathTooLong { path: path.to_owned(), bytes });
    }
    Ok(())
}

/// A task that a channel starts: it drives the connection.
pub type ChannelTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Dials the gRPC server on the socket `path`; the connection is up when this returns. It has no timeout of its own.
///
/// # Errors
/// The path is too long, or no server listens there.
pub async fn connect(path: &Path) -> Result<Channel, SocketError> {
    connect_by(path, UnixStream::connect, TokioExecutor::new()).await
}

/// As [`connect`], where sockets are reached by `dial` and tasks are started by `executor`. The channel dials again by
/// itself when its connection has ended.
///
/// # Errors
/// As [`connect`].
pub async fn connect_by<D, F, S, E>(path: &Path, dial: D, executor: E) -> Result<Channel, SocketError>
where
    D: Fn(PathBuf) -> F + Clone + Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    E: Executor<ChannelTask> + Send + Sync + 'static,
{
    check_path(path)?;
    let socket = path.to_owned();
    // The address is never resolved, it only becomes `:authority`; kubelet sends "localhost" too.
    let endpoint = Endpoint::from_static("http://localhost").executor(executor);
    endpoint
        .connect_with_connector(tower::service_fn(move |_| {
            let dialled = dial(socket.clone());
            async move { dialled.await.map(TokioIo::new) }
        }))
        .await
        .map_err(|source| SocketError::Connect { path: path.to_owned(), source })
}

/// Listens on the socket `path`, which must not exist yet. The caller removes the file afterwards.
///
/// # Errors
/// The path is too long, its folder is missing or the file is there already. Must run within a tokio runtime.
pub fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    check_path(path)?;
    UnixListener::bind(path).map_err(|source| SocketError::Listen { path: path.to_owned(), source })
}

/// The connections of `listener`, for `Server::serve_with_incoming`.
pub fn incoming(listener: UnixListener) -> UnixListenerStream {
    UnixListenerStream::new(listener)
}
