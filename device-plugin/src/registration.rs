//! Serves one resource to kubelet and keeps it registered: serve first, dial oneself, register last; once more when
//! kubelet restarts, when our socket vanishes or when kubelet's stream ends.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePluginServer;
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::{Empty, KUBELET_SOCKET, RegisterRequest, VERSION};
use kubelet_api::unix::{SocketError, connect, incoming, listen};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::engine::Engine;
use crate::offer::Offer;
use crate::service::{OPTIONS, Service, Streams};
use crate::status::Status;

/// Longest that kubelet may take to answer Register; it dials us back meanwhile, for up to 10 s.
const REGISTER_LIMIT: Duration = Duration::from_secs(15);
/// Longest that kubelet may take to open its stream after Register.
const STREAM_LIMIT: Duration = Duration::from_secs(15);
/// Longest that a server may take to end.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// First and longest wait before a failed registration is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Why a resource is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// A socket cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// An old socket is in the way.
    #[error("cannot remove the old socket {}: {why}", path.display())]
    Stale {
        /// The socket.
        path: PathBuf,
        /// What the operating system said.
        why: std::io::Error,
    },
    /// Our own server does not answer.
    #[error("our own server on {} does not answer: {why}", path.display())]
    Own {
        /// The socket.
        path: PathBuf,
        /// What came instead.
        why: tonic::Status,
    },
    /// kubelet does not want it.
    #[error("kubelet refused the registration: {0}")]
    Refused(tonic::Status),
    /// kubelet does not answer.
    #[error("kubelet did not {what} within {limit:?}")]
    Deadline {
        /// What was waited for.
        what: &'static str,
        /// How long.
        limit: Duration,
    },
}

/// One resource on its way to kubelet.
pub struct Registration {
    /// What is offered.
    pub offer: Offer,
    /// Who answers.
    pub engine: Arc<Engine>,
    /// Where problems are said.
    pub status: Arc<Status>,
    /// kubelet's plugin folder.
    pub folder: PathBuf,
    /// How often sockets are looked at, should the folder's changes not be told.
    pub poll: Duration,
    /// Told when the folder changes.
    pub folder_changed: watch::Receiver<()>,
}

/// A server on our socket.
struct Serving {
    socket: PathBuf,
    identity: Option<u64>,
    closing: CancellationToken,
    streams: watch::Receiver<Streams>,
    task: JoinHandle<()>,
}

impl Registration {
    /// Serves and stays registered until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut serving: Option<Serving> = None;
        let mut wait = RETRY.0;
        loop {
            // A kubelet that comes while we try and fail is noticed at once.
            self.folder_changed.mark_unchanged();
            let round = async {
                let current = match serving.take() {
                    Some(current) if current.is_up() => serving.insert(current),
                    old => {
                        if let Some(old) = old {
                            old.close().await;
                        }
                        serving.insert(self.serve()?)
                    }
                };
                self.register(current).await
            };
            let registered = tokio::select! {
                () = shutdown.cancelled() => break,
                registered = round => registered,
            };
            match (registered, &mut serving) {
                (Ok(kubelet), Some(serving)) => {
                    self.status.fine(self.offer.name);
                    tracing::info!("{} is registered", self.offer.name);
                    wait = RETRY.0;
                    tokio::select! {
                        () = shutdown.cancelled() => break,
                        why = self.until_lost(kubelet, serving) => {
                            self.status.problem(self.offer.name, why);
                        }
                    }
                }
                (Err(error), _) => {
                    self.status.problem(self.offer.name, &error.to_string());
                    tokio::select! {
                        () = shutdown.cancelled() => break,
                        () = tokio::time::sleep(wait) => {}
                        Ok(()) = self.folder_changed.changed() => {}
                    }
                    wait = (wait * 2).min(RETRY.1);
                }
                (Ok(_), None) => {}
            }
        }
        if let Some(serving) = serving {
            serving.close().await;
        }
    }

    fn serve(&self) -> Result<Serving, RegistrationError> {
        let socket = self.folder.join(self.offer.socket);
        if let Err(why) = std::fs::remove_file(&socket)
            && why.kind() != std::io::ErrorKind::NotFound
        {
            return Err(RegistrationError::Stale { path: socket, why });
        }
        let listener = listen(&socket)?;
        let closing = CancellationToken::new();
        let counter = Arc::new(watch::Sender::new(Streams::default()));
        let streams = counter.subscribe();
        let service = Service {
            offer: self.offer,
            engine: Arc::clone(&self.engine),
            streams: counter,
            closing: closing.clone(),
        };
        let server = Server::builder()
            .add_service(DevicePluginServer::new(service))
            .serve_with_incoming_shutdown(incoming(listener), closing.clone().cancelled_owned());
        let name = self.offer.name;
        let task = tokio::spawn(async move {
            if let Err(error) = server.await {
                tracing::warn!("the server of {name} failed: {error}");
            }
        });
        Ok(Serving { identity: identity(&socket), socket, closing, streams, task })
    }

    /// Registers; the identity of the kubelet socket that took it.
    async fn register(&self, serving: &mut Serving) -> Result<Option<u64>, RegistrationError> {
        let path = &serving.socket;
        let mut own = DevicePluginClient::new(connect(path).await?);
        own.get_device_plugin_options(Empty {})
            .await
            .map_err(|why| RegistrationError::Own { path: path.clone(), why })?;
        let kubelet = self.folder.join(KUBELET_SOCKET);
        let kubelet_identity = identity(&kubelet);
        self.meet(kubelet_identity);
        let opened = serving.streams.borrow().opened;
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: self.offer.socket.to_owned(),
            resource_name: self.offer.name.to_owned(),
            options: Some(OPTIONS),
        };
        let register = async {
            let mut client = RegistrationClient::new(connect(&kubelet).await?);
            client.register(request).await.map_err(RegistrationError::Refused)
        };
        tokio::time::timeout(REGISTER_LIMIT, register).await.map_err(|_| RegistrationError::Deadline {
            what: "answer the registration",
            limit: REGISTER_LIMIT,
        })??;
        // Until kubelet listens, nothing of ours is advertised.
        let listening = serving.streams.wait_for(|streams| streams.opened > opened);
        match tokio::time::timeout(STREAM_LIMIT, listening).await {
            Ok(_) => Ok(kubelet_identity),
            Err(_) => {
                Err(RegistrationError::Deadline { what: "open its device stream", limit: STREAM_LIMIT })
            }
        }
    }

    /// Tells the ledger when another kubelet process listens: it knows only what the last one had written down.
    fn meet(&self, kubelet: Option<u64>) {
        let mut books = self.engine.books();
        if kubelet.is_some() && books.kubelet != kubelet {
            if books.kubelet.is_some() {
                books.ledger.kubelet_restarted();
            }
            books.kubelet = kubelet;
        }
    }

    /// Waits until kubelet no longer has us, and says why.
    async fn until_lost(&mut self, kubelet: Option<u64>, serving: &mut Serving) -> &'static str {
        loop {
            if identity(&self.folder.join(KUBELET_SOCKET)) != kubelet {
                return "kubelet has restarted; registering again";
            }
            if !serving.is_up() {
                return "our socket has vanished; serving and registering again";
            }
            if serving.streams.borrow_and_update().open == 0 {
                return "kubelet's device stream has ended; registering again";
            }
            tokio::select! {
                () = tokio::time::sleep(self.poll) => {}
                Ok(()) = self.folder_changed.changed() => {}
                Ok(()) = serving.streams.changed() => {}
            }
        }
    }
}

impl Serving {
    fn is_up(&self) -> bool {
        !self.task.is_finished() && self.identity.is_some() && identity(&self.socket) == self.identity
    }

    /// Ends the streams, then the server, then the socket, within a limit.
    async fn close(self) {
        self.closing.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(CLOSE_LIMIT, self.task).await.is_err() {
            abort.abort();
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

/// Tells one file from another of the same name; none if there is no file. A new file may get the inode of an old
/// one, so its time of creation is part of it.
fn identity(path: &Path) -> Option<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let file = std::fs::symlink_metadata(path).ok()?;
    let mut hasher = DefaultHasher::new();
    (file.dev(), file.ino(), file.ctime(), file.ctime_nsec()).hash(&mut hasher);
    Some(hasher.finish())
}
