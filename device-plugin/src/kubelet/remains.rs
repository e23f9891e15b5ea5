//! Removes what killed plugins left in kubelet's plugin folder. Called by `registration` before it serves.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use runtime::reached;
use runtime::system::{Address, FileKind};
use tokio::time::timeout;

use crate::kubelet::folder::{PluginFolder, is_unique};
use crate::resource::AdvertisedResource;

/// How long a socket may take to show whether somebody listens; who does not answer at once is not dead.
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// A file that a plugin may have left.
enum Left {
    Socket,
    Lock,
}

/// Removes what killed plugins left of a resource: sockets on which nobody listens, of this release and of earlier ones,
/// and lock files that never came to their place. kubelet removes sockets only when it starts.
pub(super) async fn remove_dead(folder: &PluginFolder, resource: AdvertisedResource) {
    let Ok(names) = folder.system.names(&folder.path).await else { return };
    for name in names {
        let Some(kind) = kind(&name, resource.files) else { continue };
        let path = folder.path.join(name);
        let is_dead = match kind {
            Left::Socket => nobody_listens(folder, &path).await,
            Left::Lock => is_unlocked(folder, &path).await,
        };
        if is_dead && folder.system.remove(&path).await.is_ok() {
            reached("plugin: dead file removed");
            tracing::info!(resource = resource.name, file = %path.display(), "left by a killed plugin, removed");
        }
    }
}

fn kind(name: &OsStr, files: &str) -> Option<Left> {
    let rest = name.to_str()?.strip_prefix(files)?;
    let own = rest.strip_prefix('-').and_then(|rest| rest.strip_suffix(".sock"));
    // Earlier releases moved a socket to one name for all servers.
    let earlier = rest.strip_prefix(".sock.");
    if rest == ".sock" || own.or(earlier).is_some_and(is_unique) {
        return Some(Left::Socket);
    }
    rest.strip_prefix(".lock.").is_some_and(is_unique).then_some(Left::Lock)
}

/// Whether the file is a socket of a process that has ended. One that is frozen still listens.
async fn nobody_listens(folder: &PluginFolder, path: &Path) -> bool {
    let status = folder.system.status(path).await;
    if !status.is_ok_and(|status| status.kind == FileKind::Socket) {
        return false;
    }
    let dialled = timeout(DIAL_TIMEOUT, folder.system.connect(&Address::Unix(path.to_owned()))).await;
    dialled.is_ok_and(|dialled| dialled.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused))
}

async fn is_unlocked(folder: &PluginFolder, path: &Path) -> bool {
    let Ok(Some(file)) = folder.system.open_lock_file(path).await else { return false };
    file.try_lock().is_ok_and(|locked| locked)
}
