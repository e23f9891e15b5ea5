//! A machine in memory: its clock is the runtime's time, its random numbers are counted, its files and sockets are this struct's.
//! An extender on it has nothing to do with the computer that runs the test. Made by [`crate::simulated`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use runtime::System;
use runtime::system::{
    Address, Connection, DeviceNumber, FileStatus, Files, Listener, LockFile, Platform, Sockets,
};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// One server can listen on it.
pub(crate) struct Machine {
    began: Instant,
    /// What its clock said then.
    date: SystemTime,
    drawn: AtomicU64,
    tasks: Arc<AtomicUsize>,
    files: BTreeMap<PathBuf, Vec<u8>>,
    reads: AtomicUsize,
    folders: Mutex<Vec<watch::Sender<()>>>,
    calls: Mutex<Option<mpsc::UnboundedSender<Connection>>>,
}

impl Machine {
    /// A machine that starts on this day, in days since 1970, with these files.
    pub(crate) fn new(day: u32, files: &[(&str, &str)]) -> Arc<Machine> {
        Arc::new(Machine {
            began: Instant::now(),
            date: UNIX_EPOCH + Duration::from_secs(u64::from(day) * 24 * 3600),
            drawn: AtomicU64::new(0),
            tasks: Arc::default(),
            files: files.iter().map(|(path, text)| (path.into(), text.as_bytes().to_vec())).collect(),
            reads: AtomicUsize::new(0),
            folders: Mutex::default(),
            calls: Mutex::new(None),
        })
    }

    pub(crate) fn system(self: &Arc<Machine>) -> System {
        System::on(self.clone())
    }

    /// How many times files have been read, all together.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Tells everyone who watches a folder that something has changed there.
    pub(crate) fn change_folders(&self) {
        self.folders.lock().unwrap().iter().for_each(|folder| folder.send_replace(()));
    }

    /// How many tasks run on it.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.load(Ordering::SeqCst)
    }
}

impl Platform for Machine {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let tasks = self.tasks.clone();
        tasks.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(task.map(move |()| tasks.fetch_sub(1, Ordering::SeqCst)));
    }

    fn now(&self) -> SystemTime {
        self.date + self.began.elapsed()
    }

    fn random(&self) -> u64 {
        // Counted in steps of the golden ratio, which are spread over all numbers.
        self.drawn.fetch_add(1, Ordering::SeqCst).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn files(&self) -> &dyn Files {
        self
    }

    fn sockets(&self) -> &dyn Sockets {
        self
    }
}

impl Sockets for Machine {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        let (caller, calls) = mpsc::unbounded_channel();
        *self.calls.lock().unwrap() = Some(caller);
        Ok(Box::new(Calls { calls, address: address.clone() }))
    }

    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>> {
        let (here, there) = tokio::io::duplex(64 << 10);
        let caller = self.calls.lock().unwrap();
        let heard = caller.as_ref().is_some_and(|to| to.send(Connection::new(there, "caller")).is_ok());
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        ready(heard.then(|| Connection::new(here, address.to_string())).ok_or_else(refused)).boxed()
    }
}

struct Calls {
    calls: mpsc::UnboundedReceiver<Connection>,
    address: Address,
}

impl Listener for Calls {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        self.calls.recv().map(|call| call.ok_or_else(|| io::Error::other("the machine is gone"))).boxed()
    }

    fn address(&self) -> Address {
        self.address.clone()
    }
}

/// It has no more than can be read.
impl Files for Machine {
    fn read(&self, path: &Path) -> BoxFuture<'static, io::Result<Vec<u8>>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        ready(self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())).boxed()
    }

    fn watch(&self, _folder: &Path, changes: watch::Sender<()>) -> io::Result<Box<dyn Send + Sync>> {
        self.folders.lock().unwrap().push(changes);
        Ok(Box::new(()))
    }

    fn replace(&self, _path: &Path, _contents: Vec<u8>) -> BoxFuture<'static, io::Result<()>> {
        unsupported()
    }

    fn names(&self, _folder: &Path) -> BoxFuture<'static, io::Result<Vec<OsString>>> {
        unsupported()
    }

    fn status(&self, _path: &Path) -> BoxFuture<'static, io::Result<FileStatus>> {
        unsupported()
    }

    fn device_number(&self, _path: &Path) -> BoxFuture<'static, io::Result<Option<DeviceNumber>>> {
        unsupported()
    }

    fn create_folder(&self, _path: &Path) -> BoxFuture<'static, io::Result<()>> {
        unsupported()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> BoxFuture<'static, io::Result<()>> {
        unsupported()
    }

    fn remove(&self, _path: &Path) -> BoxFuture<'static, io::Result<()>> {
        unsupported()
    }

    fn create_lock_file(&self, _path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn LockFile>>> {
        unsupported()
    }

    fn open_lock_file(&self, _path: &Path) -> BoxFuture<'static, io::Result<Option<Arc<dyn LockFile>>>> {
        unsupported()
    }
}

fn unsupported<T: Send + 'static>() -> BoxFuture<'static, io::Result<T>> {
    ready(Err(io::ErrorKind::Unsupported.into())).boxed()
}
