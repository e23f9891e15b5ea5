//! One connection to a socket of kubelet's, kept from question to question. Owned by `podresources` and `pods_api`.

use std::error::Error as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kubelet_api::unix::{SocketError, connect_by};
use runtime::{System, reached};
use tonic::transport::Channel;
use tonic::{Response, Status};

/// Why kubelet did not tell.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// Nobody listens on kubelet's socket.
    #[error(transparent)]
    Connect(#[from] SocketError),
    /// kubelet answered with an error.
    #[error("kubelet refused: {0}")]
    Refused(#[from] Status),
    /// kubelet did not answer in time.
    #[error("kubelet did not answer on {} within {timeout:?}", socket.display())]
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
    kept: Mutex<Option<Channel>>,
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
        call: impl AsyncFn(Channel) -> Result<Response<T>, Status>,
    ) -> Result<T, KubeletError> {
        let answer = async {
            let kept = self.kept().clone();
            if let Some(channel) = kept {
                match call(channel).await {
                    Err(status) if is_broken(&status) => reached("plugin: kubelet asked again"),
                    answer => return Ok(answer?.into_inner()),
                }
            }
            let channel = self.dial().await?;
            Ok(call(channel).await?.into_inner())
        };
        tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
            // A kubelet that is frozen may never answer on this connection again.
            self.kept().take();
            Err(KubeletError::Timeout { socket: self.socket.clone(), timeout })
        })
    }

    async fn dial(&self) -> Result<Channel, SocketError> {
        self.kept().take();
        let channel = connect_by(&self.socket, self.system.dialler(), self.system.executor()).await?;
        *self.kept() = Some(channel.clone());
        Ok(channel)
    }

    fn kept(&self) -> MutexGuard<'_, Option<Channel>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the connection failed, and not kubelet refused: only the former has a cause on this side.
fn is_broken(status: &Status) -> bool {
    status.source().is_some()
}
