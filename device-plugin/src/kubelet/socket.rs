//! A server on the socket of one resource: its start, whether kubelet still reaches it there, its end. Owned by
//! `registration`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kubelet_api::deviceplugin::v1beta1::Empty;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePluginServer;
use kubelet_api::unix::{SocketError, connect, incoming, listen};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::allocation::engine::Engine;
use crate::kubelet::service::{Service, Streams};
use crate::resource::AdvertisedResource;

/// How long a plugin may take to answer its own call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a server may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a resource is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket cannot be made or listened on.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The socket cannot be moved to its place.
    #[error("cannot put our socket at {}: {why}", path.display())]
    NotMoved {
        /// The socket's place.
        path: PathBuf,
        /// The operating system's answer.
        why: std::io::Error,
    },
    /// Our own server does not answer.
    #[error("our own server on {} does not answer", path.display())]
    Silent {
        /// Absolute path of the socket.
        path: PathBuf,
    },
}

/// A server on the plugin's socket.
pub struct SocketServer {
    /// The ListAndWatch streams that kubelet has opened here.
    pub streams: watch::Receiver<Streams>,
    socket: PathBuf,
    identity: Option<u64>,
    closing: CancellationToken,
    task: JoinHandle<()>,
}

impl SocketServer {
    /// Serves `resource` in kubelet's plugin folder, in place of whoever served there before. The socket is made beside its
    /// place and moved there, so that there is always one and this one is surely ours.
    ///
    /// # Errors
    /// The socket cannot be made, listened on or moved.
    pub fn start(
        resource: AdvertisedResource,
        engine: &Arc<Engine>,
        folder: &Path,
    ) -> Result<Self, ServerError> {
        let socket = folder.join(resource.socket);
        // Two plugins on one node may both be process 1 of their containers.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let beside = folder.join(format!("{}.{:08x}", resource.socket, since.subsec_nanos()));
        let listener = listen(&beside)?;
        let identity = identity(&beside);
        if let Err(why) = std::fs::rename(&beside, &socket) {
            let _gone = std::fs::remove_file(&beside);
            return Err(ServerError::NotMoved { path: socket, why });
        }
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
    /// No plugin answers there in time.
    pub async fn answers(&self) -> Result<(), ServerError> {
        if answers(&self.socket).await {
            Ok(())
        } else {
            Err(ServerError::Silent { path: self.socket.clone() })
        }
    }

    /// Whether the server runs and its socket is still in its place.
    pub fn is_up(&self) -> bool {
        !self.task.is_finished() && self.identity.is_some() && identity(&self.socket) == self.identity
    }

    /// Ends the streams, then the server, then removes the socket. Takes two seconds at most.
    pub async fn close(&mut self) {
        self.closing.cancel();
        if !self.task.is_finished() && tokio::time::timeout(CLOSE_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
        // kubelet, or another plugin, may have put another file there.
        if identity(&self.socket) == self.identity
            && let Err(why) = std::fs::remove_file(&self.socket)
            && why.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(socket = %self.socket.display(), reason = %why, "the socket could not be removed");
        }
    }
}

/// Whether a device plugin answers on the socket. A frozen one does not, though it can be dialled.
pub async fn answers(socket: &Path) -> bool {
    let ask = async {
        let mut plugin = DevicePluginClient::new(connect(socket).await.ok()?);
        plugin.get_device_plugin_options(Empty {}).await.ok()
    };
    matches!(tokio::time::timeout(ANSWER_TIMEOUT, ask).await, Ok(Some(_)))
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
