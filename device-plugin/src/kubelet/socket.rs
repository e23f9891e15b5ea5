//! A server on the socket of one resource: its start, whether kubelet still reaches it there, its end. Used by
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
use crate::resource::Offer;

/// Longest that a plugin may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Longest that a server may take to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// Why a resource is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The socket cannot be put in its place.
    #[error("cannot put our socket at {}: {why}", path.display())]
    NotMoved {
        /// The socket.
        path: PathBuf,
        /// What the operating system said.
        why: std::io::Error,
    },
    /// Our own server does not answer.
    #[error("our own server on {} does not answer", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
    },
}

/// A server on our socket.
pub struct Serving {
    /// How many streams kubelet has opened here, and how many are open.
    pub streams: watch::Receiver<Streams>,
    socket: PathBuf,
    identity: Option<u64>,
    closing: CancellationToken,
    task: JoinHandle<()>,
}

impl Serving {
    /// Serves `offer` in kubelet's plugin folder, in place of whoever served there before. The socket is made beside its
    /// place and moved there: there is never none, and it is surely ours.
    pub fn start(offer: Offer, engine: &Arc<Engine>, folder: &Path) -> Result<Self, ServingError> {
        let socket = folder.join(offer.socket);
        // Two plugins on one node may both be process 1 of their containers.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let beside = folder.join(format!("{}.{:08x}", offer.socket, since.subsec_nanos()));
        let listener = listen(&beside)?;
        let identity = identity(&beside);
        if let Err(why) = std::fs::rename(&beside, &socket) {
            let _gone = std::fs::remove_file(&beside);
            return Err(ServingError::NotMoved { path: socket, why });
        }
        let closing = CancellationToken::new();
        let counter = Arc::new(watch::Sender::new(Streams::default()));
        let streams = counter.subscribe();
        let service =
            Service { offer, engine: Arc::clone(engine), streams: counter, closing: closing.clone() };
        let server = Server::builder()
            .add_service(DevicePluginServer::new(service))
            .serve_with_incoming_shutdown(incoming(listener), closing.clone().cancelled_owned());
        let task = tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::warn!("the server of {} failed: {error}", offer.name);
            }
        });
        Ok(Serving { identity, socket, closing, streams, task })
    }

    /// Dials oneself: what kubelet is told of must answer.
    pub async fn answers(&self) -> Result<(), ServingError> {
        if answers(&self.socket).await {
            Ok(())
        } else {
            Err(ServingError::Silent { path: self.socket.clone() })
        }
    }

    /// Whether the server runs and the socket is the one it listens on.
    pub fn is_up(&self) -> bool {
        !self.task.is_finished() && self.identity.is_some() && identity(&self.socket) == self.identity
    }

    /// Ends the streams, then the server, then the socket, within a limit.
    pub async fn close(&mut self) {
        self.closing.cancel();
        if !self.task.is_finished() && tokio::time::timeout(CLOSE_LIMIT, &mut self.task).await.is_err() {
            self.task.abort();
        }
        // kubelet, or another plugin, may have put another file there.
        if identity(&self.socket) == self.identity
            && let Err(why) = std::fs::remove_file(&self.socket)
            && why.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove {}: {why}", self.socket.display());
        }
    }
}

/// Whether a device plugin answers on the socket. One that is frozen does not, though it can be dialled.
pub async fn answers(socket: &Path) -> bool {
    let ask = async {
        let mut plugin = DevicePluginClient::new(connect(socket).await.ok()?);
        plugin.get_device_plugin_options(Empty {}).await.ok()
    };
    matches!(tokio::time::timeout(ANSWER_LIMIT, ask).await, Ok(Some(_)))
}

/// Tells one file from another of the same name; none if there is no file. A new file may get the inode of an old
/// one, so its time is part of it: of a socket, which is never written to, that of its creation.
pub fn identity(path: &Path) -> Option<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let file = std::fs::symlink_metadata(path).ok()?;
    let mut hasher = DefaultHasher::new();
    (file.dev(), file.ino(), file.mtime(), file.mtime_nsec()).hash(&mut hasher);
    Some(hasher.finish())
}
