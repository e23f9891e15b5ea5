//! The TLS configuration that is being served, which is replaced when the files change. Started by [`crate::serve`].
//!
//! Only new connections see new files; those that are open go on. Mounted Secrets swap a symlink beside the
//! files, so their folders are watched and contents compared.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum_server::tls_rustls::RustlsConfig;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::{info, warn};

use super::error::TlsError;
use super::{Contents, TlsFiles};

/// How often the files are read although no change was seen: a folder may have been replaced, a certificate may have
/// become valid.
const POLL: Duration = Duration::from_secs(60);

/// The files, their contents that are served, and who sees changes.
pub(crate) struct LiveTls {
    files: TlsFiles,
    served: Contents,
    config: RustlsConfig,
    changed: Arc<Notify>,
    _watcher: Option<RecommendedWatcher>,
}

impl LiveTls {
    /// Reads the files; an error names the one that cannot be used.
    pub(crate) fn open(files: TlsFiles) -> Result<Self, TlsError> {
        // The folders are watched before the files are read, so that no change between the two is missed.
        let changed = Arc::new(Notify::new());
        let watcher = watch(&files, changed.clone());
        let served = files.read()?;
        let config = RustlsConfig::from_config(Arc::new(files.server_config(&served)?));
        Ok(Self { files, served, config, changed, _watcher: watcher })
    }

    /// The configuration for new connections, always the newest.
    pub(crate) fn config(&self) -> RustlsConfig {
        self.config.clone()
    }

    /// Follows the files until the future is dropped. Files that cannot be used change nothing.
    pub(crate) async fn follow(mut self) {
        let mut last_error = None;
        loop {
            let _ = timeout(POLL, self.changed.notified()).await;
            match self.reload() {
                Ok(true) => info!(certificate = %self.files.certificate.display(), "TLS files reloaded"),
                Ok(false) => {}
                Err(error) => {
                    let error = error.to_string();
                    if last_error.as_ref() != Some(&error) {
                        warn!(
                            reason = error,
                            "TLS files not reloaded; the ones before are served until they are put right"
                        );
                    }
                    last_error = Some(error);
                    continue;
                }
            }
            last_error = None;
        }
    }

    /// Whether there was something new.
    fn reload(&mut self) -> Result<bool, TlsError> {
        let contents = self.files.read()?;
        if contents == self.served {
            return Ok(false);
        }
        let config = self.files.server_config(&contents)?;
        self.config.reload_from_config(Arc::new(config));
        self.served = contents;
        Ok(true)
    }
}

/// Notifies of changes in the files' folders. Where that does not work, the poll finds them too.
fn watch(files: &TlsFiles, changed: Arc<Notify>) -> Option<RecommendedWatcher> {
    let paths = [&files.certificate, &files.key].into_iter().chain(&files.client_ca);
    let folder = |path: &Path| match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => Path::new(".").to_owned(),
    };
    let folders: BTreeSet<_> = paths.map(|path| folder(path)).collect();
    let watching = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the files is an event too, and must not lead to the next reading.
        if !event.is_ok_and(|event| event.kind.is_access()) {
            changed.notify_one();
        }
    })
    .and_then(|mut watcher| {
        folders.iter().try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive))?;
        Ok(watcher)
    });
    watching
        .inspect_err(|error| {
            warn!(reason = error.to_string(), period = ?POLL, "folders of TLS files cannot be watched; the files are read now and then");
        })
        .ok()
}
