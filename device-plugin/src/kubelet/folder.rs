//! kubelet's plugin folder: which kubelet listens there, when something changes, names for new files. Shared by the
//! registrations of one plugin.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kubelet_api::deviceplugin::v1beta1::KUBELET_SOCKET;
use kubelet_api::unix::{SocketError, connect_by};
use runtime::system::{FileStatus, FolderWatch};
use runtime::{System, reached};
use tonic::transport::Channel;

/// The folder. Clones are told of changes each by itself, and share the names.
#[derive(Clone)]
pub struct PluginFolder {
    /// The operating system that the folder is on.
    pub system: System,
    /// Absolute path of the folder.
    pub path: PathBuf,
    /// Absolute path of kubelet's registration socket.
    pub kubelet_socket: PathBuf,
    next_name: Arc<AtomicU32>,
    /// None where the folder cannot be watched: polling finds changes too.
    watch: Option<FolderWatch>,
}

impl PluginFolder {
    /// The folder at this path, watched if it can be.
    pub fn new(system: System, path: PathBuf) -> Self {
        let watch = system.watch_folder(&path).inspect_err(|error| {
            reached("plugin: folder not watched");
            let folder = path.display();
            tracing::warn!(%folder, reason = %error, "the plugin folder is not watched, only polled");
        });
        // At random: two plugins on one node may both be process 1 of their containers, started at one moment.
        let [a, b, c, d, ..] = system.random().to_le_bytes();
        PluginFolder {
            kubelet_socket: path.join(KUBELET_SOCKET),
            next_name: Arc::new(AtomicU32::new(u32::from_le_bytes([a, b, c, d]))),
            watch: watch.ok(),
            system,
            path,
        }
    }

    /// Returns once something in the folder has changed since the last call; never where it is not watched.
    pub async fn changed(&mut self) {
        match &mut self.watch {
            Some(watch) => watch.changed().await,
            None => std::future::pending().await,
        }
    }

    /// Tells one kubelet from the next: its socket. None while there is none, or it cannot be looked at.
    pub async fn kubelet(&self) -> Option<FileStatus> {
        self.status(&self.kubelet_socket).await.ok().flatten()
    }

    /// What is at a path in the folder; none if nothing is. A new file may get the inode of an old one, and then tells
    /// itself from that by its time.
    ///
    /// # Errors
    /// It cannot be looked at, or not in time.
    pub async fn status(&self, path: &Path) -> io::Result<Option<FileStatus>> {
        match self.system.status(path).await {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Dials the gRPC server on a socket in the folder. It has no timeout of its own.
    ///
    /// # Errors
    /// The path is too long, or no server listens there.
    pub async fn dial(&self, socket: &Path) -> Result<Channel, SocketError> {
        connect_by(socket, self.system.dialler(), self.system.executor()).await
    }

    /// A part of a file's name that no other plugin and no earlier file of this one has: eight hexadecimal digits.
    pub fn unique(&self) -> String {
        format!("{:08x}", self.next_name.fetch_add(1, Ordering::Relaxed))
    }
}

/// Whether `text` has the form of [`PluginFolder::unique`].
pub(super) fn is_unique(text: &str) -> bool {
    text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
