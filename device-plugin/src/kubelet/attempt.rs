//! One attempt at a registration: dial kubelet, serve on a new socket, register, wait for kubelet's stream. Made by
//! `registration`, again and again.

use std::path::PathBuf;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::{RegisterRequest, VERSION};
use kubelet_api::unix::SocketError;
use runtime::reached;
use runtime::system::FileStatus;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;

use crate::kubelet::registration::Registration;
use crate::kubelet::service::OPTIONS;
use crate::kubelet::serving_lock::ServingLock;
use crate::kubelet::socket::{ServerError, SocketServer};

/// How long kubelet may take to answer Register; it dials back meanwhile, for up to 10 s.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long kubelet may take to open its stream after Register.
const STREAM_TIMEOUT: Duration = Duration::from_secs(5);
/// How kubelet 1.37 and later begin to say that they still hold the path of a socket.
const ALREADY_CONNECTED: &str = "device plugin already connected";

/// Why a resource is not registered.
#[derive(Debug, thiserror::Error)]
pub(super) enum RegistrationError {
    /// The resource is not served.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// kubelet is away.
    #[error(transparent)]
    Away(#[from] SocketError),
    /// kubelet refused.
    #[error("kubelet refused the registration: {0}")]
    Refused(tonic::Status),
    /// kubelet still holds the path of the socket, and will until it restarts.
    #[error("kubelet still holds {}, on which an earlier server was", socket.display())]
    AlreadyConnected {
        /// Absolute path of the socket.
        socket: PathBuf,
    },
    /// kubelet did not answer in time.
    #[error("kubelet did not answer the registration within {REGISTER_TIMEOUT:?}")]
    Unanswered,
    /// kubelet accepted the registration and did not call ListAndWatch.
    #[error("kubelet did not open its device stream within {STREAM_TIMEOUT:?}")]
    NoStream,
    /// The socket is no longer in its place, or another plugin serves.
    #[error("our socket has vanished before kubelet had dialled it, or another plugin serves")]
    SocketLost,
}

impl RegistrationError {
    /// Counts it as a branch.
    pub(super) fn count(&self) {
        match self {
            RegistrationError::Server(ServerError::Silent { .. }) => reached("plugin: own server silent"),
            RegistrationError::Server(ServerError::Socket(_)) => reached("plugin: socket not made"),
            RegistrationError::Away(_) => reached("plugin: kubelet away"),
            RegistrationError::Refused(_) => reached("plugin: registration refused"),
            RegistrationError::AlreadyConnected { .. } => reached("plugin: already connected"),
            RegistrationError::Unanswered => reached("plugin: registration not answered"),
            RegistrationError::NoStream => reached("plugin: stream not opened"),
            RegistrationError::SocketLost => reached("plugin: socket lost while registering"),
        }
    }
}

impl Registration {
    /// Serves on a new socket, then registers; the kubelet socket that was asked. kubelet hears of each socket once: from
    /// 1.37 on it never frees the path of a registration that it refused.
    pub(super) async fn try_register(
        &self,
        lock: &mut ServingLock,
        server: &mut Option<SocketServer>,
    ) -> Result<Option<FileStatus>, RegistrationError> {
        let kubelet = self.folder.kubelet().await;
        let dialled = timeout(REGISTER_TIMEOUT, self.folder.dial(&self.folder.kubelet_socket)).await;
        let channel = dialled.map_err(|_| RegistrationError::Unanswered)??;
        let current = server.insert(SocketServer::start(&self.folder, self.resource, &self.engine)?);
        current.answers(&self.folder).await?;
        self.note_kubelet(kubelet);
        tokio::select! {
            // Whether it is lost by now, the next look tells as well.
            biased;
            registered = self.register(channel, current) => registered.map(|()| kubelet),
            () = self.until_down(current, lock) => Err(RegistrationError::SocketLost),
        }
    }

    /// Registers and waits until kubelet listens; before, nothing is advertised.
    async fn register(&self, kubelet: Channel, server: &SocketServer) -> Result<(), RegistrationError> {
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: server.name(),
            resource_name: self.resource.name.to_owned(),
            options: Some(OPTIONS),
        };
        let mut kubelet = RegistrationClient::new(kubelet);
        let answer = timeout(REGISTER_TIMEOUT, kubelet.register(request)).await;
        answer.map_err(|_| RegistrationError::Unanswered)?.map_err(|refusal| {
            if refusal.message().starts_with(ALREADY_CONNECTED) {
                RegistrationError::AlreadyConnected { socket: server.socket.clone() }
            } else {
                RegistrationError::Refused(refusal)
            }
        })?;
        let mut streams = server.streams.clone();
        match timeout(STREAM_TIMEOUT, streams.wait_for(|streams| streams.opened > 0)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(RegistrationError::NoStream),
        }
    }

    /// Waits until the server is not reached on its socket, or another plugin serves.
    async fn until_down(&self, server: &SocketServer, lock: &mut ServingLock) {
        let mut folder = self.folder.clone();
        while server.is_up(&self.folder).await && lock.keep(&self.folder).await {
            tokio::select! {
                // Both lead to the same look.
                biased;
                () = sleep(self.poll) => {}
                () = folder.changed() => {}
            }
        }
    }

    /// Tells the ledger when another kubelet process listens, which knows only what the last one had written down.
    fn note_kubelet(&self, kubelet: Option<FileStatus>) {
        let mut state = self.engine.state();
        if kubelet.is_some() && state.kubelet != kubelet {
            if state.kubelet.is_some() {
                state.ledger.kubelet_restarted();
                self.engine.pods.kubelet_restarted();
            }
            state.kubelet = kubelet;
        }
    }
}
