//! A server of one resource on a socket of its own: its start, whether kubelet still reaches it there, its end. Owned by
//! `registration`.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::Empty;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePluginServer;
use kubelet_api::unix::{SocketError, check_path};
use runtime::system::{Address, FileStatus, Task};
use runtime::{Protocol, Server, reached};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use crate::allocation::engine::Engine;
use crate::kubelet::folder::PluginFolder;
use crate::kubelet::service::{Service, Streams};
use crate::resource::AdvertisedResource;

/// How long a plugin may take to answer its own call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a server may take to end: an Allocate in flight may wait for a holder's end, for the API server, for files and for processes.
/// Shorter than the 30 s that a pod has to end by default.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

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

/// A server on a socket of its own. Dropping it breaks off its calls and leaves the socket behind, as the end of a process
/// does.
pub struct SocketServer {
    /// The ListAndWatch streams that kubelet has opened here.
    pub streams: watch::Receiver<Streams>,
    /// Absolute path of the socket.
    pub socket: PathBuf,
    /// The socket's file; none until [`SocketServer::answers`] has seen it.
    identity: Option<FileStatus>,
    closing: CancellationToken,
    task: Task<()>,
}

impl SocketServer {
    /// Serves `resource` in kubelet's plugin folder, on a socket that no other server ever had: kubelet may hold a path for
    /// good (docs/adr/0033-socket-of-its-own.md).
    ///
    /// # Errors
    /// The socket cannot be made or listened on.
    pub fn start(
        folder: &PluginFolder,
        resource: AdvertisedResource,
        engine: &Arc<Engine>,
    ) -> Result<Self, ServerError> {
        let socket = folder.path.join(format!("{}-{}.sock", resource.files, folder.unique()));
        // Planted: a server has the name of the one before it, which kubelet may still hold.
        #[cfg(planted)]
        let socket = if runtime::is_planted("socket-name-again") {
            folder.path.join(format!("{}-00000000.sock", resource.files))
        } else {
            socket
        };
        check_path(&socket)?;
        let listener = folder
            .system
            .listen(&Address::Unix(socket.clone()))
            .map_err(|source| SocketError::Listen { path: socket.clone(), source })?;
        let closing = CancellationToken::new();
        let counter = Arc::new(watch::Sender::new(Streams::default()));
        let streams = counter.subscribe();
        let service =
            Service { resource, engine: Arc::clone(engine), streams: counter, closing: closing.clone() };
        let routes = Routes::new(DevicePluginServer::new(service)).prepare().into_axum_router();
        let server = Server::new(folder.system.clone(), Protocol::Http2, routes, CLOSE_TIMEOUT);
        let task = folder.system.spawn(server.run(listener, closing.clone()));
        Ok(SocketServer { identity: None, socket, closing, streams, task })
    }

    /// Dials the socket: what kubelet is told of must answer. From then on it is known when the socket is another one.
    ///
    /// # Errors
    /// The server does not answer in time.
    pub async fn answers(&mut self, folder: &PluginFolder) -> Result<(), ServerError> {
        self.identity = folder.status(&self.socket).await.ok().flatten();
        let ask = async {
            let mut plugin = DevicePluginClient::new(folder.dial(&self.socket).await.ok()?);
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

    /// Whether the server runs and its socket is still in its place, as far as that can be seen.
    pub async fn is_up(&self, folder: &PluginFolder) -> bool {
        if self.task.is_finished() || self.identity.is_none() {
            return false;
        }
        match folder.status(&self.socket).await {
            Ok(there) => there == self.identity,
            Err(_) => {
                reached("plugin: socket not seen");
                true
            }
        }
    }

    /// Ends the streams, answers the calls in flight, ends the server and removes the socket. Takes 22 seconds at most.
    pub async fn close(&mut self, folder: &PluginFolder) {
        self.closing.cancel();
        if !self.task.is_finished() {
            // Bounded by the server's grace. Why it ended is logged where it broke.
            let _ended = (&mut self.task).await;
        }
        if let Err(why) = folder.system.remove(&self.socket).await
            && why.kind() != ErrorKind::NotFound
        {
            reached("plugin: socket not removed");
            tracing::warn!(socket = %self.socket.display(), reason = %why, "the socket could not be removed");
        }
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.closing.cancel();
        self.task.abort();
    }
}
