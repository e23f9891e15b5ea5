//! A server of one resource on a socket of its own: its start, whether kubelet still reaches it there, its end, and what
//! killed plugins left. Owned by `registration`.

use std::ffi::OsStr;
use std::fs::{DirEntry, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::Empty;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePluginServer;
use kubelet_api::unix::{SocketError, connect, incoming, listen};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::allocation::engine::Engine;
use crate::kubelet::service::{Service, Streams};
use crate::kubelet::unique::{is_unique, unique};
use crate::resource::AdvertisedResource;

/// How long a plugin may take to answer its own call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a server may take to end: an Allocate in flight may wait for the API server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a resource is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket cannot be made or listened on.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Our own server does not answer.
    #[error("our own server on {} does not answer", path.display())]
    Silent {
        /// Absolute path of the socket.
        path: PathBuf,
    },
}

/// A server on a socket of its own.
pub struct SocketServer {
    /// The ListAndWatch streams that kubelet has opened here.
    pub streams: watch::Receiver<Streams>,
    /// Absolute path of the socket.
    pub socket: PathBuf,
    identity: Option<u64>,
    closing: CancellationToken,
    task: JoinHandle<()>,
}

impl SocketServer {
    /// Serves `resource` in kubelet's plugin folder, on a socket that no other server ever had: kubelet may hold a path for
    /// good (docs/adr/0033-socket-of-its-own.md).
    ///
    /// # Errors
    /// The socket cannot be made or listened on.
    pub fn start(
        resource: AdvertisedResource,
        engine: &Arc<Engine>,
        folder: &Path,
    ) -> Result<Self, ServerError> {
        let socket = folder.join(format!("{}-{}.sock", resource.files, unique()));
        let listener = listen(&socket)?;
        let identity = identity(&socket);
        let closing = CancellationToken::new();
        let counter = Arc::new(watch::Sender::new(Streams::default()));
        let streams = counter.subscribe();
        let service =
            Service { resource, engine: Arc::clone(engine), streams: counter, closing: closing.clone() };
        let server = Server::builder()
            .add_service(DevicePluginServer::new(service))
            .serve_with_incoming_shutdown(incoming(listener), closing.clone().cancelled_owned());
        let task = tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::warn!(resource = resource.name, reason = %error, "the socket's server failed");
            }
        });
        Ok(SocketServer { identity, socket, closing, streams, task })
    }

    /// Dials the socket: what kubelet is told of must answer.
    ///
    /// # Errors
    /// The server does not answer in time.
    pub async fn answers(&self) -> Result<(), ServerError> {
        let ask = async {
            let mut plugin = DevicePluginClient::new(connect(&self.socket).await.ok()?);
            plugin.get_device_plugin_options(Empty {}).await.ok()
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, ask).await {
            Ok(Some(_)) => Ok(()),
            _ => Err(ServerError::Silent { path: self.socket.clone() }),
        }
    }

    /// The socket's file name, which kubelet is told.
    pub fn name(&self) -> String {
        self.socket.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether the server runs and its socket is still in its place.
    pub fn is_up(&self) -> bool {
        !self.task.is_finished() && self.identity.is_some() && identity(&self.socket) == self.identity
    }

    /// Ends the streams, answers the calls in flight, ends the server and removes the socket. Takes five seconds at most.
    pub async fn close(&mut self) {
        self.closing.cancel();
        if !self.task.is_finished() && tokio::time::timeout(CLOSE_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
        if let Err(why) = std::fs::remove_file(&self.socket)
            && why.kind() != ErrorKind::NotFound
        {
            tracing::warn!(socket = %self.socket.display(), reason = %why, "the socket could not be removed");
        }
    }
}

/// Removes what killed plugins left of a resource: sockets on which nobody listens, of this release and of earlier ones,
/// and lock files that never came to their place. kubelet removes sockets only when it starts.
pub async fn remove_dead(folder: &Path, resource: AdvertisedResource) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_dead = match kind(&name, resource.files) {
            Some(Left::Socket) => nobody_listens(&entry).await,
            Some(Left::Lock) => File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok()),
            None => false,
        };
        if is_dead && std::fs::remove_file(entry.path()).is_ok() {
            tracing::info!(resource = resource.name, file = %entry.path().display(), "left by a killed plugin, removed");
        }
    }
}

/// A file that a plugin may have left.
enum Left {
    Socket,
    Lock,
}

fn kind(name: &OsStr, files: &str) -> Option<Left> {
    let rest = name.to_str()?.strip_prefix(files)?;
    let own = rest.strip_prefix('-').and_then(|rest| rest.strip_suffix(".sock"));
    // Earlier releases moved a socket to one name for all servers.
    let earlier = rest.strip_prefix(".sock.");
    if rest == ".sock" || own.or(earlier).is_some_and(is_unique) {
        return Some(Left::Socket);
    }
    rest.strip_prefix(".lock.").is_some_and(is_unique).then_some(Left::Lock)
}

/// Whether the file is a socket of a process that has ended. One that is frozen still listens.
async fn nobody_listens(entry: &DirEntry) -> bool {
    let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
    let dialled = UnixStream::connect(entry.path()).await;
    is_socket && dialled.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Tells one file from another of the same name; none if there is no file. A new file may get the inode of an old one, so
/// the time of its last change is part of it, which for a socket is the time of its creation.
pub fn identity(path: &Path) -> Option<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let file = std::fs::symlink_metadata(path).ok()?;
    let mut hasher = DefaultHasher::new();
    (file.dev(), file.ino(), file.mtime(), file.mtime_nsec()).hash(&mut hasher);
    Some(hasher.finish())
}
