//! A machine in memory. Its files and sockets outlive its processes, which end with their tasks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use fake_cluster::System;
use fake_cluster::system::{
    Address, Connection, DeviceNumber, FileKind, FileStatus, Files, Listener, LockFile, Platform, Sockets,
};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

/// Bytes that may be under way on a connection.
const BUFFER: usize = 64 * 1024;

/// What the processes of a machine share.
#[derive(Default)]
pub(crate) struct Machine {
    /// Sockets have no contents.
    files: Mutex<BTreeMap<PathBuf, Option<Vec<u8>>>>,
    listeners: Mutex<BTreeMap<String, mpsc::UnboundedSender<DuplexStream>>>,
    randomness: AtomicU64,
}

/// A process on a machine.
pub(crate) struct Process {
    machine: Arc<Machine>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Machine {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { randomness: AtomicU64::new(seed), ..Self::default() })
    }

    pub(crate) fn process(self: &Arc<Self>) -> Arc<Process> {
        Arc::new(Process { machine: self.clone(), tasks: Mutex::default() })
    }
}

impl Process {
    pub(crate) fn system(self: &Arc<Self>) -> System {
        System::on(self.clone())
    }

    /// Ends it, as SIGKILL does.
    pub(crate) fn kill(&self) {
        self.tasks.lock().unwrap().drain(..).for_each(|task| task.abort());
    }
}

impl Platform for Process {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        let mut tasks = self.tasks.lock().unwrap();
        tasks.retain(|task| !task.is_finished());
        tasks.push(tokio::spawn(task).abort_handle());
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn random(&self) -> u64 {
        // SplitMix64.
        let mut mixed = self.machine.randomness.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    fn files(&self) -> &dyn Files {
        &*self.machine
    }

    fn sockets(&self) -> &dyn Sockets {
        &*self.machine
    }
}

/// The answer, at once.
fn at_once<T: Send + 'static>(answer: io::Result<T>) -> BoxFuture<'static, io::Result<T>> {
    ready(answer).boxed()
}

fn missing() -> io::Error {
    ErrorKind::NotFound.into()
}

impl Files for Machine {
    fn read(&self, path: &Path) -> BoxFuture<'static, io::Result<Vec<u8>>> {
        let found = self.files.lock().unwrap().get(path).cloned().flatten();
        at_once(found.ok_or_else(missing))
    }

    fn replace(&self, path: &Path, contents: Vec<u8>) -> BoxFuture<'static, io::Result<()>> {
        self.files.lock().unwrap().insert(path.to_owned(), Some(contents));
        at_once(Ok(()))
    }

    fn names(&self, folder: &Path) -> BoxFuture<'static, io::Result<Vec<OsString>>> {
        let files = self.files.lock().unwrap();
        let inside = files.keys().filter(|path| path.parent() == Some(folder));
        at_once(Ok(inside.filter_map(|path| path.file_name()).map(OsString::from).collect()))
    }

    fn status(&self, path: &Path) -> BoxFuture<'static, io::Result<FileStatus>> {
        let status = self.files.lock().unwrap().get(path).map(|contents| FileStatus {
            kind: if contents.is_some() { FileKind::File } else { FileKind::Socket },
            device: 0,
            inode: 0,
            modified: SystemTime::UNIX_EPOCH,
        });
        at_once(status.ok_or_else(missing))
    }

    fn device_number(&self, _: &Path) -> BoxFuture<'static, io::Result<Option<DeviceNumber>>> {
        at_once(Err(ErrorKind::Unsupported.into()))
    }

    fn create_folder(&self, _: &Path) -> BoxFuture<'static, io::Result<()>> {
        at_once(Ok(()))
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        let mut files = self.files.lock().unwrap();
        let moved = files.remove(from).map(|contents| drop(files.insert(to.to_owned(), contents)));
        at_once(moved.ok_or_else(missing))
    }

    fn remove(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.listeners.lock().unwrap().remove(&path.display().to_string());
        at_once(self.files.lock().unwrap().remove(path).map(drop).ok_or_else(missing))
    }

    fn create_lock_file(&self, _: &Path) -> BoxFuture<'static, io::Result<Arc<dyn LockFile>>> {
        at_once(Err(ErrorKind::Unsupported.into()))
    }

    fn open_lock_file(&self, _: &Path) -> BoxFuture<'static, io::Result<Option<Arc<dyn LockFile>>>> {
        at_once(Err(ErrorKind::Unsupported.into()))
    }

    fn watch(&self, _: &Path, _: watch::Sender<()>) -> io::Result<Box<dyn Send + Sync>> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Sockets for Machine {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        if let Address::Unix(path) = address
            && self.files.lock().unwrap().insert(path.clone(), None).is_some()
        {
            return Err(ErrorKind::AddrInUse.into());
        }
        let (sender, connections) = mpsc::unbounded_channel();
        self.listeners.lock().unwrap().insert(address.to_string(), sender);
        Ok(Box::new(Accepting { connections, address: address.clone() }))
    }

    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>> {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let listeners = self.listeners.lock().unwrap();
        let reached =
            listeners.get(&address.to_string()).is_some_and(|listener| listener.send(theirs).is_ok());
        at_once(if reached {
            Ok(Connection::new(ours, ""))
        } else {
            Err(ErrorKind::ConnectionRefused.into())
        })
    }
}

struct Accepting {
    connections: mpsc::UnboundedReceiver<DuplexStream>,
    address: Address,
}

impl Listener for Accepting {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        async {
            match self.connections.recv().await {
                Some(stream) => Ok(Connection::new(stream, "")),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }

    fn address(&self) -> Address {
        self.address.clone()
    }
}
