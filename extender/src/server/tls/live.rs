//! The TLS configuration that is being served, which is replaced when the files change. Started by [`crate::serve`].
//!
//! Only new connections see new files; those that are open go on. Mounted Secrets swap a symlink beside the
//! files, so their folders are watched and contents compared.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::select_all;
use runtime::system::FolderWatch;
use runtime::{System, reached};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::error::TlsError;
use super::{Contents, TlsFiles};

/// How long after the [`PAUSE`] the files are read although no change was seen: a folder may have been replaced, a certificate may have
/// become valid.
const POLL: Duration = Duration::from_secs(60);

/// How long after they were read the files are not read anew: their folder may be one in which a log is written.
const PAUSE: Duration = Duration::from_secs(1);

/// The files, their contents that are served, and who sees changes.
pub(crate) struct LiveTls {
    files: TlsFiles,
    contents: Contents,
    served: watch::Sender<Arc<ServerConfig>>,
    folders: Vec<FolderWatch>,
}

/// What is served. Clones see the same.
#[derive(Clone)]
pub(crate) struct ServedTls {
    config: watch::Receiver<Arc<ServerConfig>>,
}

impl ServedTls {
    /// The configuration for a new connection.
    pub(crate) fn newest(&self) -> Arc<ServerConfig> {
        self.config.borrow().clone()
    }
}

impl LiveTls {
    /// Reads the files; an error names the one that cannot be used.
    pub(crate) async fn open(system: &System, files: TlsFiles) -> Result<Self, TlsError> {
        // The folders are watched before the files are read, so that no change between the two is missed.
        let folders = watch_folders(system, &files);
        let contents = files.read(system).await?;
        let config = files.server_config(&contents, system)?;
        Ok(Self { files, contents, served: watch::Sender::new(Arc::new(config)), folders })
    }

    /// The configuration for new connections, always the newest.
    pub(crate) fn served(&self) -> ServedTls {
        ServedTls { config: self.served.subscribe() }
    }

    /// Follows the files until the future is dropped. Files that cannot be used change nothing.
    pub(crate) async fn follow(mut self, system: System) {
        let mut last_error = None;
        loop {
            let _ = timeout(POLL, change(&mut self.folders)).await;
            match self.reload(&system).await {
                Ok(is_new) => {
                    last_error = None;
                    if is_new {
                        reached("extender: TLS files reloaded");
                        info!(certificate = %self.files.certificate.display(), "TLS files reloaded");
                    }
                }
                Err(error) => {
                    reached("extender: TLS files not usable");
                    let error = error.to_string();
                    if last_error.as_ref() != Some(&error) {
                        warn!(
                            reason = error,
                            "TLS files not reloaded; the ones before are served until they are put right"
                        );
                    }
                    last_error = Some(error);
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether there was something new.
    async fn reload(&mut self, system: &System) -> Result<bool, TlsError> {
        let contents = self.files.read(system).await?;
        if contents == self.contents {
            return Ok(false);
        }
        let config = self.files.server_config(&contents, system)?;
        self.served.send_replace(Arc::new(config));
        self.contents = contents;
        Ok(true)
    }
}

/// Watches the files' folders. In those that cannot be watched the poll finds changes too.
fn watch_folders(system: &System, files: &TlsFiles) -> Vec<FolderWatch> {
    let paths = [&files.certificate, &files.key].into_iter().chain(&files.client_ca);
    let folder = |path: &Path| match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    let folders: BTreeSet<_> = paths.map(|path| folder(path)).collect();
    let watched = folders.into_iter().filter_map(|folder| {
        let watching = system.watch_folder(&folder).inspect_err(|error| {
            reached("extender: TLS folder not watched");
            let (folder, reason) = (folder.display(), error.to_string());
            warn!(%folder, reason, period = ?POLL, "a folder of TLS files cannot be watched; the files are read now and then");
        });
        watching.ok()
    });
    watched.collect()
}

/// Waits until something changes in one of the folders; without end if there are none.
async fn change(folders: &mut [FolderWatch]) {
    if folders.is_empty() {
        return std::future::pending().await;
    }
    select_all(folders.iter_mut().map(|folder| folder.changed().boxed())).await;
}
