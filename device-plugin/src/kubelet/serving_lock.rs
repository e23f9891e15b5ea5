//! Decides which of several plugins on one node serves a resource: the one whose lock file stands in kubelet's plugin
//! folder. A plugin that starts puts its file there and waits until the one before has let go of its own. The kernel lets
//! go for a plugin that is killed; one that is frozen is not waited for. Owned by `registration`.

use std::fs::{File, Metadata, OpenOptions, TryLockError, rename};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::kubelet::unique::unique;

/// Time between two signs of life of the plugin that serves: it sets the time of its lock file.
const BEAT: Duration = Duration::from_secs(1);
/// A plugin that gives no sign of life for so long is frozen.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a plugin that lives may take to let go: it answers kubelet's open calls first.
const HANDOVER: Duration = Duration::from_secs(10);
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
    file: Arc<File>,
    /// Kept locked for those that opened it before this plugin's file was in its place, and wait for it.
    file_before: Option<File>,
    beat: AbortHandle,
}

impl ServingLock {
    /// For a plugin that starts: takes the place of the one that serves and waits for its end, ten seconds at most.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub async fn claim(path: &Path) -> Result<Self, LockError> {
        let claim = async {
            let file_before = open(path)?;
            let mut lock = Self::put_in_place(path)?;
            if let Some(file) = &file_before {
                lock.before = timeout(HANDOVER, until_let_go(file)).await.unwrap_or(Ok(Before::Frozen))?;
            }
            lock.file_before = file_before;
            Ok(lock)
        };
        claim.await.map_err(|why| LockError { path: path.to_owned(), why })
    }

    /// For a plugin whose place another has taken: waits until nobody serves, or the one that should is frozen.
    ///
    /// # Errors
    /// The file cannot be made, opened or locked.
    pub async fn wait(path: &Path) -> Result<Self, LockError> {
        let error = |why| LockError { path: path.to_owned(), why };
        while let Some(file) = open(path).map_err(error)? {
            let before = tokio::select! {
                before = until_let_go(&file) => before.map_err(error)?,
                () = until_replaced(&file, path) => continue,
            };
            if before == Before::Frozen {
                let mut lock = Self::put_in_place(path).map_err(error)?;
                lock.before = before;
                return Ok(lock);
            }
            if in_place(&file, path) == Some(true) {
                return Ok(Self::of(file, path, before));
            }
        }
        Self::claim(path).await
    }

    /// Whether this plugin may go on serving. A file that somebody removed is put in its place again.
    pub fn keep(&mut self) -> bool {
        if let Some(in_place) = in_place(&self.file, &self.path) {
            return in_place;
        }
        let Ok(mut again) = Self::put_in_place(&self.path) else { return false };
        again.before = self.before;
        again.file_before = self.file_before.take();
        *self = again;
        true
    }

    /// Locks a new file and moves it to its place, so that nobody else can ever have locked it.
    fn put_in_place(path: &Path) -> io::Result<Self> {
        let beside = path.with_added_extension(unique());
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&beside)?;
        if let Err(why) = file.try_lock().map_err(io::Error::from).and_then(|()| rename(&beside, path)) {
            let _gone = std::fs::remove_file(&beside);
            return Err(why);
        }
        Ok(Self::of(file, path, Before::Nobody))
    }

    fn of(file: File, path: &Path, before: Before) -> Self {
        let file = Arc::new(file);
        let beat = tokio::spawn(beat(Arc::clone(&file), path.to_owned())).abort_handle();
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
async fn beat(file: Arc<File>, path: PathBuf) {
    loop {
        if let Err(why) = file.set_modified(SystemTime::now()) {
            tracing::warn!(lock = %path.display(), reason = %why, "no sign of life could be given");
        }
        sleep(BEAT).await;
    }
}

/// Waits until nobody has the file locked, which then is this plugin's, or until its plugin is frozen.
async fn until_let_go(file: &File) -> io::Result<Before> {
    let mut let_go = Before::Nobody;
    let (mut last_beat, mut since) = (file.metadata()?.modified()?, Instant::now());
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(let_go),
            Err(TryLockError::WouldBlock) => let_go = Before::LetGo,
            Err(TryLockError::Error(why)) => return Err(why),
        }
        let beat = file.metadata()?.modified()?;
        if beat != last_beat {
            (last_beat, since) = (beat, Instant::now());
        } else if since.elapsed() >= SILENCE {
            return Ok(Before::Frozen);
        }
        sleep(LOOK).await;
    }
}

async fn until_replaced(file: &File, path: &Path) {
    while in_place(file, path) != Some(false) {
        sleep(LOOK).await;
    }
}

/// Whether the file at `path` is this one; none if there is no file.
fn in_place(file: &File, path: &Path) -> Option<bool> {
    // The file is open, so no other can have its inode.
    let inode = |of: Metadata| (of.dev(), of.ino());
    let there = std::fs::symlink_metadata(path).map(inode).ok()?;
    Some(file.metadata().map(inode).is_ok_and(|own| own == there))
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
