//! This machine, watched: it counts what the plugin asks of it, and files and sockets can be made to hang.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use neuron_device_plugin::System;
use runtime::system::{
    Address, Connection, DeviceNumber, FileStatus, Files, Listener, LockFile, Platform, Sockets, Task,
};
use tokio::sync::watch;
use tokio::time::sleep;

/// The machine. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Watched {
    machine: System,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    tasks: AtomicUsize,
    files: AtomicUsize,
    hangs: Mutex<Option<PathBuf>>,
    /// Whether nothing is ever heard of a file any more, nor of who listens on a socket.
    is_dead: AtomicBool,
    /// How long each operation on a file takes at least.
    slowness: Mutex<Duration>,
    /// The wall clock's time, if a test has set it.
    now: Mutex<Option<SystemTime>>,
}

impl Watched {
    pub(crate) fn new() -> Self {
        Watched { machine: System::real(), counts: Arc::default() }
    }

    pub(crate) fn system(&self) -> System {
        System::on(Arc::new(self.clone()))
    }

    /// Tasks that were started and have not ended.
    pub(crate) fn tasks(&self) -> usize {
        self.counts.tasks.load(Ordering::SeqCst)
    }

    /// Operations on files so far.
    pub(crate) fn file_operations(&self) -> usize {
        self.counts.files.load(Ordering::SeqCst)
    }

    /// Stops the wall clock at a time.
    pub(crate) fn set_clock(&self, now: SystemTime) {
        *self.counts.now.lock().unwrap() = Some(now);
    }

    /// Makes everything in a folder hang, or nothing.
    pub(crate) fn hang(&self, folder: Option<PathBuf>) {
        *self.counts.hangs.lock().unwrap() = folder;
    }

    /// Makes every file and every connection from now on hang for ever. Whoever has a limit of time waits until it is over.
    pub(crate) fn die(&self) {
        self.counts.is_dead.store(true, Ordering::SeqCst);
    }

    /// Makes every operation on a file take so long.
    pub(crate) fn slow_down(&self, slowness: Duration) {
        *self.counts.slowness.lock().unwrap() = slowness;
    }

    fn operation<T: Send + 'static, R: Future<Output = io::Result<T>> + Send + 'static>(
        &self,
        path: &Path,
        operation: impl FnOnce(System, PathBuf) -> R,
    ) -> BoxFuture<'static, io::Result<T>> {
        self.counts.files.fetch_add(1, Ordering::SeqCst);
        if self.counts.is_dead.load(Ordering::SeqCst) {
            return pending().boxed();
        }
        if self.counts.hangs.lock().unwrap().as_ref().is_some_and(|folder| path.starts_with(folder)) {
            // As after the limit of time, which a test need not wait for.
            return async { Err(io::ErrorKind::TimedOut.into()) }.boxed();
        }
        let (operation, slowness) =
            (operation(self.machine.clone(), path.to_owned()), *self.counts.slowness.lock().unwrap());
        async move {
            sleep(slowness).await;
            operation.await
        }
        .boxed()
    }
}

/// Counts a task until it ends.
struct Alive(Arc<Counts>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tells of changes in a folder until it is dropped.
struct Watching(Task<()>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Platform for Watched {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.counts.tasks.fetch_add(1, Ordering::SeqCst);
        let alive = Alive(Arc::clone(&self.counts));
        let _task: Task<()> = self.machine.spawn(async move {
            let _alive = alive;
            task.await;
        });
    }

    fn now(&self) -> SystemTime {
        let set = *self.counts.now.lock().unwrap();
        set.unwrap_or_else(|| self.machine.now())
    }

    fn random(&self) -> u64 {
        self.machine.random()
    }

    fn files(&self) -> &dyn Files {
        self
    }

    fn sockets(&self) -> &dyn Sockets {
        self
    }
}

impl Files for Watched {
    fn read(&self, path: &Path) -> BoxFuture<'static, io::Result<Vec<u8>>> {
        self.operation(path, |machine, path| async move { machine.read(&path).await })
    }

    fn replace(&self, path: &Path, contents: Vec<u8>) -> BoxFuture<'static, io::Result<()>> {
        self.operation(path, |machine, path| async move { machine.replace(&path, contents).await })
    }

    fn names(&self, folder: &Path) -> BoxFuture<'static, io::Result<Vec<OsString>>> {
        self.operation(folder, |machine, folder| async move { machine.names(&folder).await })
    }

    fn status(&self, path: &Path) -> BoxFuture<'static, io::Result<FileStatus>> {
        self.operation(path, |machine, path| async move { machine.status(&path).await })
    }

    fn device_number(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<DeviceNumber>>> {
        self.operation(path, |machine, path| async move { machine.device_number(&path).await })
    }

    fn create_folder(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.operation(path, |machine, path| async move { machine.create_folder(&path).await })
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        let to = to.to_owned();
        self.operation(from, |machine, from| async move { machine.rename(&from, &to).await })
    }

    fn remove(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.operation(path, |machine, path| async move { machine.remove(&path).await })
    }

    fn create_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn LockFile>>> {
        self.operation(path, |machine, path| async move { machine.create_lock_file(&path).await })
    }

    fn open_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<Arc<dyn LockFile>>>> {
        self.operation(path, |machine, path| async move { machine.open_lock_file(&path).await })
    }

    fn watch(&self, folder: &Path, changes: watch::Sender<()>) -> io::Result<Box<dyn Send + Sync>> {
        let mut folder = self.machine.watch_folder(folder)?;
        let told = self.system().spawn(async move {
            loop {
                folder.changed().await;
                changes.send_replace(());
            }
        });
        Ok(Box::new(Watching(told)))
    }
}

impl Sockets for Watched {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        self.machine.listen(address)
    }

    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>> {
        if self.counts.is_dead.load(Ordering::SeqCst) {
            return pending().boxed();
        }
        let (machine, address) = (self.machine.clone(), address.clone());
        async move { machine.connect(&address).await }.boxed()
    }
}
