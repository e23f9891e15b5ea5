//! Open files by which processes take turns: locks are the open file's, not the process', as flock's are.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use runtime::system::{FileKind, FileStatus, LockFile};

/// A file without its name.
pub(crate) struct Inode {
    pub(crate) number: u64,
    state: Mutex<State>,
}

struct State {
    modified: SystemTime,
    /// The handle that has it locked.
    locked_by: Option<u64>,
}

static HANDLES: AtomicU64 = AtomicU64::new(1);

/// An open file.
pub(super) struct Handle {
    inode: Arc<Inode>,
    host: usize,
    /// Tells it from other handles; nothing observable comes of the number.
    number: u64,
}

impl Inode {
    pub(super) fn new(number: u64, modified: SystemTime) -> Self {
        Self { number, state: Mutex::new(State { modified, locked_by: None }) }
    }

    pub(super) fn modified(&self) -> SystemTime {
        self.state().modified
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    pub(super) fn open(inode: &Arc<Inode>, host: usize) -> Arc<dyn LockFile> {
        let number = HANDLES.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { inode: Arc::clone(inode), host, number })
    }
}

impl LockFile for Handle {
    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.inode.state();
        Ok(*state.locked_by.get_or_insert(self.number) == self.number)
    }

    fn unlock(&self) -> io::Result<()> {
        self.inode.state().locked_by.take_if(|holder| *holder == self.number);
        Ok(())
    }

    fn status(&self) -> io::Result<FileStatus> {
        let Inode { number, .. } = *self.inode;
        let modified = self.inode.modified();
        Ok(FileStatus { kind: FileKind::File, device: self.host as u64, inode: number, modified })
    }

    fn set_modified(self: Arc<Self>, time: SystemTime) -> BoxFuture<'static, io::Result<()>> {
        self.inode.state().modified = time;
        ready(Ok(())).boxed()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inode.state().locked_by.take_if(|holder| *holder == self.number);
    }
}
