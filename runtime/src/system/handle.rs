//! A [`System`]: what a program asks of the operating system, on whatever platform it stands.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::timeout;

use super::files::{DeviceNumber, FileStatus, FolderWatch, LockFile};
use super::platform::Platform;
use super::real;
use super::sockets::{Address, Connection, Listener};
use super::tasks::{self, Executor, Panics, Task};

/// Longest wait for one file operation. Files of a broken device can hang for ever.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(2);

/// The operating system. Clones are the same one.
#[derive(Clone)]
pub struct System {
    platform: Arc<dyn Platform>,
    panics: Option<Panics>,
}

impl System {
    /// This machine, in the current tokio runtime.
    pub fn real() -> Self {
        Self::on(Arc::new(real::Machine::new()))
    }

    /// The system on this platform.
    pub fn on(platform: Arc<dyn Platform>) -> Self {
        Self { platform, panics: None }
    }

    /// The same operating system, and who hears of every panic in a task that is started by it from now on: nobody has to wait for a
    /// task, and a program without one of its tasks may look alive.
    pub fn telling_panics(&self) -> (Self, Panics) {
        let panics = Panics::default();
        (Self { panics: Some(panics.clone()), ..self.clone() }, panics)
    }

    /// What it stands on, for a platform that is another in one thing and asks this one for the rest.
    pub fn platform(&self) -> &Arc<dyn Platform> {
        &self.platform
    }

    /// Starts a task. It goes on when the handle is dropped.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (task, body) = tasks::task(future, self.panics.clone());
        self.platform.spawn(body);
        task
    }

    /// For libraries that start tasks themselves.
    pub fn executor(&self) -> Executor {
        Executor::new(self.clone())
    }

    /// The wall clock, for timestamps that others read. Waits go by tokio's time.
    pub fn now(&self) -> SystemTime {
        self.platform.now()
    }

    /// A random number that nobody can foresee.
    pub fn random(&self) -> u64 {
        self.platform.random()
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// There is no such file, it cannot be read, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        in_time(self.platform.files().read(path)).await
    }

    /// The file's text.
    ///
    /// # Errors
    /// As [`System::read`], and if the bytes are no UTF-8 (kind `InvalidData`).
    pub async fn read_to_string(&self, path: &Path) -> io::Result<String> {
        let bytes = self.read(path).await?;
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
    }

    /// Replaces the file in one step: readers see the old bytes or the new. The new file is written beside it first, as
    /// `path` with `.new` added, by nobody but its owner to be read.
    ///
    /// # Errors
    /// The folder is missing or cannot be written, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn replace(&self, path: &Path, contents: Vec<u8>) -> io::Result<()> {
        in_time(self.platform.files().replace(path, contents)).await
    }

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// There is no such folder, it cannot be read, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        in_time(self.platform.files().names(folder)).await
    }

    /// What is at the path, itself and not what it links to.
    ///
    /// # Errors
    /// Nothing is there, it cannot be looked at, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn status(&self, path: &Path) -> io::Result<FileStatus> {
        in_time(self.platform.files().status(path)).await
    }

    /// The number of the character device that the path leads to, links followed, those of open files in `/proc` too; none if it is
    /// anything else. Nobody but this machine is asked: a file of a network that is away makes nobody wait.
    ///
    /// # Errors
    /// The path leads nowhere, it cannot be looked at, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn device_number(&self, path: &Path) -> io::Result<Option<DeviceNumber>> {
        in_time(self.platform.files().device_number(path)).await
    }

    /// Makes the folder and those that lead to it. One that is there is no error.
    ///
    /// # Errors
    /// It cannot be made, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn create_folder(&self, path: &Path) -> io::Result<()> {
        in_time(self.platform.files().create_folder(path)).await
    }

    /// Gives a file another name, in place of what had that name.
    ///
    /// # Errors
    /// There is no such file, it cannot be renamed, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        in_time(self.platform.files().rename(from, to)).await
    }

    /// Removes a file, a socket or a link.
    ///
    /// # Errors
    /// There is no such file, it cannot be removed, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn remove(&self, path: &Path) -> io::Result<()> {
        in_time(self.platform.files().remove(path)).await
    }

    /// Makes a file to lock, which must not exist yet.
    ///
    /// # Errors
    /// It is there already, cannot be made, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn create_lock_file(&self, path: &Path) -> io::Result<Arc<dyn LockFile>> {
        in_time(self.platform.files().create_lock_file(path)).await
    }

    /// Opens a file to lock; none if there is no file.
    ///
    /// # Errors
    /// It cannot be opened, or not within [`FILE_TIMEOUT`] (kind `TimedOut`).
    pub async fn open_lock_file(&self, path: &Path) -> io::Result<Option<Arc<dyn LockFile>>> {
        in_time(self.platform.files().open_lock_file(path)).await
    }

    /// Tells when something in the folder is created, changed or removed.
    ///
    /// # Errors
    /// The folder cannot be watched: it has to be looked at now and then.
    pub fn watch_folder(&self, folder: &Path) -> io::Result<FolderWatch> {
        let changes = watch::Sender::new(());
        let receiver = changes.subscribe();
        let guard = self.platform.files().watch(folder, changes)?;
        Ok(FolderWatch::new(receiver, guard))
    }

    /// Listens at the address: at `[::]` for IPv4, too, and for that alone where there is no IPv6. A Unix socket's path must not exist yet;
    /// the caller removes it afterwards.
    ///
    /// # Errors
    /// Somebody else listens there, or it is not this machine's to listen on.
    pub fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        self.platform.sockets().listen(address)
    }

    /// How sockets are reached by their paths, for libraries that dial themselves.
    pub fn dialler(
        &self,
    ) -> impl Fn(PathBuf) -> BoxFuture<'static, io::Result<Connection>> + Clone + Send + Sync + use<> {
        let platform = Arc::clone(&self.platform);
        move |path| platform.sockets().connect(&Address::Unix(path))
    }

    /// Connects to who listens at the address. It has no timeout of its own.
    ///
    /// # Errors
    /// Nobody listens there (kind `ConnectionRefused`, or `NotFound` for a path), or it cannot be reached.
    pub async fn connect(&self, address: &Address) -> io::Result<Connection> {
        self.platform.sockets().connect(address).await
    }
}

impl fmt::Debug for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("System")
    }
}

async fn in_time<T>(operation: BoxFuture<'_, io::Result<T>>) -> io::Result<T> {
    match timeout(FILE_TIMEOUT, operation).await {
        Ok(done) => done,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {FILE_TIMEOUT:?}"))),
    }
}
