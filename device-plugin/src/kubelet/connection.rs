//! One connection to kubelet's podresources socket, kept from question to question. Owned by `podresources`.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubelet_api::podresources::v1::MAX_MESSAGE_BYTES;
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::unix::{SocketError, connect_by};
use runtime::{System, reached};
use tonic::transport::Channel;
use tonic::{Response, Status};

/// The client of kubelet's API. Clones share the connection.
pub(super) type Kubelet = PodResourcesListerClient<Channel>;

/// Why kubelet did not tell.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    /// Nobody listens on kubelet's socket.
    #[error(transparent)]
    Connect(#[from] SocketError),
    /// kubelet answered with an error.
    #[error("kubelet did not tell its pod resources: {0}")]
    Refused(#[from] Status),
    /// kubelet did not answer in time.
    #[error("kubelet did not tell its pod resources on {} within {timeout:?}", socket.display())]
    Timeout {
        /// kubelet's socket.
        socket: PathBuf,
        /// The time it had.
        timeout: Duration,
    },
}

/// A connection that is made with the first question, and anew when it has ended.
pub(super) struct Connection {
    system: System,
    socket: PathBuf,
    kept: Mutex<Option<Kubelet>>,
}

impl Connection {
    /// To the kubelet on this socket.
    pub(super) fn new(system: System, socket: PathBuf) -> Self {
        Connection { system, socket, kept: Mutex::default() }
    }

    /// Asks kubelet one question; a second time where the connection from before was a dead kubelet's.
    pub(super) async fn ask<T>(
        &self,
        timeout: Duration,
        call: impl AsyncFn(Kubelet) -> Result<Response<T>, Status>,
    ) -> Result<T, PodResourcesError> {
        let answer = async {
            let kept = self.kept().clone();
            if let Some(kubelet) = kept {
                match call(kubelet).await {
                    Err(status) if is_broken(&status) => reached("plugin: podresources asked again"),
                    answer => return Ok(answer?.into_inner()),
                }
            }
            let kubelet = self.dial().await?;
            Ok(call(kubelet).await?.into_inner())
        };
        let answer = tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
            // A kubelet that is frozen may never answer on this connection again.
            self.kept().take();
            Err(PodResourcesError::Timeout { socket: self.socket.clone(), timeout })
        });
        match &answer {
            Ok(_) => {}
            Err(PodResourcesError::Connect(_)) => reached("plugin: podresources away"),
            Err(PodResourcesError::Refused(_)) => reached("plugin: podresources refused"),
            Err(PodResourcesError::Timeout { .. }) => reached("plugin: podresources not answered"),
        }
        answer
    }

    async fn dial(&self) -> Result<Kubelet, SocketError> {
        self.kept().take();
        let channel = connect_by(&self.socket, self.system.dialler(), self.system.executor()).await?;
        let kubelet = Kubelet::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        *self.kept() = Some(kubelet.clone());
        Ok(kubelet)
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kubelet>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the connection failed, and not kubelet refused: only the former has a cause on this side.
fn is_broken(status: &Status) -> bool {
    status.source().is_some()
}
