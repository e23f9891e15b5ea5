//! What a program may do with files. Implemented by this machine (`real`) and by simulated ones.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use futures::future::BoxFuture;
use tokio::sync::watch;

/// The files of a machine. Errors are of the kinds that Linux gives.
pub trait Files: Send + Sync {
    /// See [`super::handle::System::read`]. No limit of time.
    fn read(&self, path: &Path) -> BoxFuture<'static, io::Result<Vec<u8>>>;

    /// See [`super::handle::System::replace`]. No limit of time.
    fn replace(&self, path: &Path, contents: Vec<u8>) -> BoxFuture<'static, io::Result<()>>;

    /// See [`super::handle::System::names`]. No limit of time.
    fn names(&self, folder: &Path) -> BoxFuture<'static, io::Result<Vec<OsString>>>;

    /// See [`super::handle::System::status`]. No limit of time.
    fn status(&self, path: &Path) -> BoxFuture<'static, io::Result<FileStatus>>;

    /// See [`super::handle::System::device_number`]. No limit of time.
    fn device_number(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<DeviceNumber>>>;

    /// See [`super::handle::System::create_folder`]. No limit of time.
    fn create_folder(&self, path: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// See [`super::handle::System::rename`]. No limit of time.
    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// See [`super::handle::System::remove`]. No limit of time.
    fn remove(&self, path: &Path) -> BoxFuture<'static, io::Result<()>>;

    /// See [`super::handle::System::create_lock_file`]. No limit of time.
    fn create_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn LockFile>>>;

    /// See [`super::handle::System::open_lock_file`]. No limit of time.
    fn open_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<Arc<dyn LockFile>>>>;

    /// Sends to `changes` whenever something in the folder changes, until what is returned is dropped.
    ///
    /// # Errors
    /// The folder cannot be watched.
    fn watch(&self, folder: &Path, changes: watch::Sender<()>) -> io::Result<Box<dyn Send + Sync>>;
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileStatus {
    /// What it is.
    pub kind: FileKind,
    /// Number of the file system that it is on.
    pub device: u64,
    /// Its number there. A new file may get that of one that is gone.
    pub inode: u64,
    /// When it was changed last; for a socket, when it was made.
    pub modified: SystemTime,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A file with bytes.
    File,
    /// A folder.
    Folder,
    /// A Unix socket.
    Socket,
    /// Anything else: a link, a device, a pipe.
    Other,
}

/// What the kernel knows a device by, whatever the path of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Of the driver.
    pub major: u32,
    /// Of the device among the driver's.
    pub minor: u32,
}

/// An open file by which processes take turns. The lock ends with the process, or when the last handle is dropped.
pub trait LockFile: Send + Sync {
    /// Locks it, unless it is locked by another handle. Whether it is this handle's now.
    ///
    /// # Errors
    /// The file system refuses.
    fn try_lock(&self) -> io::Result<bool>;

    /// Lets go of the lock.
    ///
    /// # Errors
    /// The file system refuses.
    fn unlock(&self) -> io::Result<()>;

    /// The open file, whatever its name by now.
    ///
    /// # Errors
    /// The file system refuses.
    fn status(&self) -> io::Result<FileStatus>;

    /// Sets the time of its last change. No limit of time: the file system may wait for its disk.
    ///
    /// # Errors
    /// The file system refuses.
    fn set_modified(self: Arc<Self>, time: SystemTime) -> BoxFuture<'static, io::Result<()>>;
}

/// A folder that is being watched, until this is dropped. Clones share the watch.
#[derive(Clone)]
pub struct FolderWatch {
    changes: watch::Receiver<()>,
    _guard: Arc<dyn Send + Sync>,
}

impl FolderWatch {
    pub(super) fn new(changes: watch::Receiver<()>, guard: Box<dyn Send + Sync>) -> Self {
        Self { changes, _guard: Arc::from(guard) }
    }

    /// Returns once something in the folder has changed since the last call, or since the watch began.
    pub async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            // The watch has failed: nothing is told any more.
            std::future::pending().await
        }
    }
}
