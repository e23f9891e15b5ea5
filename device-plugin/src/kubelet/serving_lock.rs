//! Decides which of several plugins on one node serves a resource: the one whose lock file stands in kubelet's plugin
//! folder. A plugin that starts puts its file there and waits until the one before has let go of its own. The kernel lets
//! go for a plugin that is killed; one that is frozen is not waited for. Owned by `registration`.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use runtime::system::{FileStatus, LockFile, Task};
use runtime::{System, reached};
use tokio::time::{Instant, sleep, timeout};

use crate::kubelet::folder::PluginFolder;
use crate::kubelet::socket::CLOSE_TIMEOUT;

/// Time between two signs of life of the plugin that serves: it sets the time of its lock file.
const BEAT: Duration = Duration::from_secs(1);
/// A plugin that gives no sign of life for so long is frozen.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a plugin that lives may take to let go: it answers kubelet's open calls first, and removes its socket.
pub(super) const HANDOVER: Duration = Duration::from_secs(CLOSE_TIMEOUT.as_secs() + 5);
/// Time between two looks at another plugin's lock.
const LOOK: Duration = Duration::from_millis(50);

/// A lock file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the lock file {}, by which device plugins take turns: {why}; is its folder writable?", path.display())]
pub struct LockError {
    path: PathBuf,
    why: io::Error,
}

/// What became of the plugin that served before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was none, or it had ended.
    Nobody,
    /// It was there, and let go or was killed meanwhile.
    LetGo,
    /// It gave no sign of life, and may go on one day.
    Frozen,
}

/// The right to serve one resource on this node. Dropping it lets the next plugin serve.
pub struct ServingLock {
    /// Who served before.
    pub before: Before,
    path: PathBuf,
    file: Arc<dyn LockFile>,
    /// Kept locked for those that opened it before this plugin's file was in its place, and wait for it.
    file_before: Option<Arc<dyn LockFile>>,
    beat: Task<()>,
}

impl ServingLock {
    /// For a plugin that starts: takes the place of the one that serves and waits for its end, 25 seconds at most.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub async fn claim(folder: &PluginFolder, path: &Path) -> Result<Self, LockError> {
        let mut lock = Self::take_place(folder, path).await?;
        lock.until_let_go().await?;
        Ok(lock)
    }

    /// Takes the place of the one that serves, which still does: see [`ServingLock::until_let_go`].
    ///
    /// # Errors
    /// The file cannot be made or opened.
    pub async fn take_place(folder: &PluginFolder, path: &Path) -> Result<Self, LockError> {
        let taken = async {
            let file_before = folder.system.open_lock_file(path).await?;
            let mut lock = Self::put_in_place(folder, path).await?;
            lock.file_before = file_before;
            Ok(lock)
        };
        taken.await.map_err(|why| LockError { path: path.to_owned(), why })
    }

    /// Waits until the one whose place this took has let go, 25 seconds at most.
    ///
    /// # Errors
    /// Its file cannot be locked.
    pub async fn until_let_go(&mut self) -> Result<(), LockError> {
        if let Some(file) = &self.file_before {
            let let_go = timeout(HANDOVER, until_let_go(file.as_ref())).await.unwrap_or(Ok(Before::Frozen));
            self.before = let_go.map_err(|why| LockError { path: self.path.clone(), why })?;
        }
        Ok(())
    }

    /// For a plugin whose place another has taken: waits until nobody serves, or the one that should is frozen.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub async fn wait(folder: &PluginFolder, path: &Path) -> Result<Self, LockError> {
        let error = |why| LockError { path: path.to_owned(), why };
        while let Some(file) = folder.system.open_lock_file(path).await.map_err(error)? {
            let before = tokio::select! {
                // A file that is replaced decides nothing any more, whoever has let go of it.
                biased;
                () = until_replaced(folder, file.as_ref(), path) => continue,
                before = until_let_go(file.as_ref()) => before.map_err(error)?,
            };
            if before == Before::Frozen {
                let mut lock = Self::put_in_place(folder, path).await.map_err(error)?;
                lock.before = before;
                return Ok(lock);
            }
            if in_place(folder, file.as_ref(), path).await.map_err(error)? == Some(true) {
                return Ok(Self::of(&folder.system, file, path, before));
            }
        }
        Self::claim(folder, path).await
    }

    /// Whether this plugin may go on serving. A file that somebody removed is put in its place again. A folder that cannot be
    /// looked at is no reason to end.
    pub async fn keep(&mut self, folder: &PluginFolder) -> bool {
        match in_place(folder, self.file.as_ref(), &self.path).await {
            Ok(Some(in_place)) => in_place,
            Ok(None) => self.put_back(folder).await.is_ok(),
            Err(why) => {
                reached("plugin: lock file not seen");
                tracing::debug!(lock = %self.path.display(), reason = %why, "the lock file could not be looked at");
                true
            }
        }
    }

    async fn put_back(&mut self, folder: &PluginFolder) -> io::Result<()> {
        reached("plugin: lock file put back");
        let (beside, mut again) = Self::beside(folder, &self.path).await?;
        again.before = self.before;
        again.file_before = self.file_before.take();
        // First its own, then in its place: a caller may stop to wait at any moment.
        *self = again;
        self.move_from(folder, &beside).await
    }

    async fn put_in_place(folder: &PluginFolder, path: &Path) -> io::Result<Self> {
        let (beside, lock) = Self::beside(folder, path).await?;
        lock.move_from(folder, &beside).await?;
        Ok(lock)
    }

    /// Locks a new file before it comes to its place, so that nobody else can ever have locked it.
    async fn beside(folder: &PluginFolder, path: &Path) -> io::Result<(PathBuf, Self)> {
        let beside = path.with_added_extension(folder.unique());
        let file = folder.system.create_lock_file(&beside).await?;
        let why = match file.try_lock() {
            Ok(true) => return Ok((beside, Self::of(&folder.system, file, path, Before::Nobody))),
            Ok(false) => io::Error::new(ErrorKind::WouldBlock, "somebody else has locked a new file"),
            Err(why) => why,
        };
        let _gone = folder.system.remove(&beside).await;
        Err(why)
    }

    async fn move_from(&self, folder: &PluginFolder, beside: &Path) -> io::Result<()> {
        let moved = folder.system.rename(beside, &self.path).await;
        if moved.is_err() {
            let _gone = folder.system.remove(beside).await;
        }
        moved
    }

    fn of(system: &System, file: Arc<dyn LockFile>, path: &Path, before: Before) -> Self {
        let beat = system.spawn(beat(system.clone(), Arc::clone(&file), path.to_owned()));
        ServingLock { before, path: path.to_owned(), file, file_before: None, beat }
    }
}

impl Drop for ServingLock {
    fn drop(&mut self) {
        self.beat.abort();
        // The task that beats has the file open for a moment longer.
        if let Err(why) = self.file.unlock() {
            tracing::warn!(lock = %self.path.display(), reason = %why, "the lock could not be let go");
        }
    }
}

/// Gives signs of life for as long as this process runs.
async fn beat(system: System, file: Arc<dyn LockFile>, path: PathBuf) {
    loop {
        if let Err(why) = Arc::clone(&file).set_modified(system.now()).await {
            reached("plugin: no sign of life");
            tracing::warn!(lock = %path.display(), reason = %why, "no sign of life could be given");
        }
        sleep(BEAT).await;
    }
}

/// Waits until nobody has the file locked, which then is this plugin's, or until its plugin is frozen.
async fn until_let_go(file: &dyn LockFile) -> io::Result<Before> {
    let mut let_go = Before::Nobody;
    let (mut last_beat, mut since) = (file.status()?.modified, Instant::now());
    loop {
        if file.try_lock()? {
            return Ok(let_go);
        }
        let_go = Before::LetGo;
        let beat = file.status()?.modified;
        if beat != last_beat {
            (last_beat, since) = (beat, Instant::now());
        } else if since.elapsed() >= SILENCE {
            return Ok(Before::Frozen);
        }
        sleep(LOOK).await;
    }
}

async fn until_replaced(folder: &PluginFolder, file: &dyn LockFile, path: &Path) {
    while !matches!(in_place(folder, file, path).await, Ok(Some(false))) {
        sleep(LOOK).await;
    }
}

/// Whether the file at `path` is this one; none if there is no file.
async fn in_place(folder: &PluginFolder, file: &dyn LockFile, path: &Path) -> io::Result<Option<bool>> {
    let Some(there) = folder.status(path).await? else { return Ok(None) };
    // The file is open, so no other can have its inode.
    let inode = |of: FileStatus| (of.device, of.inode);
    Ok(Some(file.status().is_ok_and(|own| inode(own) == inode(there))))
}
