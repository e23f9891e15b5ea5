//! A process' way to its host's files. A process that has ended changes nothing any more, whatever its destructors do.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use runtime::system::{DeviceNumber, FileStatus, Files, LockFile};
use tokio::sync::watch;

use super::lock::Handle;
use super::tree::{Content, Tree};
use super::{FileSystem, FolderWatched, status};
use crate::life::Life;

/// Linux' number of an input or output error.
const EIO: i32 = 5;

/// The files that one process sees.
pub(crate) struct ProcessFiles {
    life: Life,
    /// Those of its host.
    files: Arc<FileSystem>,
    /// Its host's number.
    host: usize,
}

impl ProcessFiles {
    /// The way of the process with this life to the files of its host, which has this number.
    pub(crate) fn new(life: Life, files: Arc<FileSystem>, host: usize) -> Self {
        Self { life, files, host }
    }

    fn look<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce(&Tree) -> io::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, io::Result<T>> {
        let mut state = self.files.state();
        state.reads += 1;
        if !state.hangs(path) {
            return ready(look(&state.tree)).boxed();
        }
        drop(state);
        let (files, path) = (Arc::clone(&self.files), path.to_owned());
        async move {
            files.answers(&path).await;
            look(&files.state().tree)
        }
        .boxed()
    }

    fn change<T: Send + 'static>(
        &self,
        path: &Path,
        change: impl FnOnce(&mut Tree, SystemTime) -> io::Result<T>,
    ) -> BoxFuture<'static, io::Result<T>> {
        let done = if self.life.has_ended() {
            Err(io::Error::other("the process has ended"))
        } else if self.files.state().refuses(path) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.files.change(path, change)
        };
        ready(done).boxed()
    }
}

impl Files for ProcessFiles {
    fn read(&self, path: &Path) -> BoxFuture<'static, io::Result<Vec<u8>>> {
        if self.files.is_unreadable(path) {
            return ready(Err(io::Error::from_raw_os_error(EIO))).boxed();
        }
        let file = path.to_owned();
        self.look(path, move |tree| tree.bytes(&file).map(|bytes| bytes.to_vec()))
    }

    fn replace(&self, path: &Path, contents: Vec<u8>) -> BoxFuture<'static, io::Result<()>> {
        self.change(path, |tree, now| {
            in_folder(tree, path)?;
            tree.put(path, Content::Bytes(contents.into()), now)
        })
    }

    fn names(&self, folder: &Path) -> BoxFuture<'static, io::Result<Vec<OsString>>> {
        let path = folder.to_owned();
        self.look(folder, move |tree| tree.names(&path))
    }

    fn status(&self, path: &Path) -> BoxFuture<'static, io::Result<FileStatus>> {
        let (file, host) = (path.to_owned(), self.host);
        self.look(path, move |tree| {
            tree.get(&file).map(|entry| status(host, entry)).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn device_number(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<DeviceNumber>>> {
        let file = path.to_owned();
        self.look(path, move |tree| tree.device_number(&file))
    }

    fn create_folder(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.change(path, |tree, now| tree.make_folder(path, now))
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.change(to, |tree, now| tree.rename(from, to, now))
    }

    fn remove(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        self.change(path, |tree, _| tree.remove(path))
    }

    fn create_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn LockFile>>> {
        let host = self.host;
        self.change(path, |tree, now| {
            in_folder(tree, path)?;
            if tree.get(path).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            tree.put(path, Content::Bytes(Arc::default()), now)?;
            let entry = tree.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(Handle::open(&entry.inode, host))
        })
    }

    fn open_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<Arc<dyn LockFile>>>> {
        let (file, host) = (path.to_owned(), self.host);
        self.look(path, move |tree| Ok(tree.get(&file).map(|entry| Handle::open(&entry.inode, host))))
    }

    fn watch(&self, folder: &Path, changes: watch::Sender<()>) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.files.state();
        state.tree.names(folder)?;
        state.watches.push(FolderWatched { folder: folder.to_owned(), changes });
        // The watch ends with its last receiver.
        Ok(Box::new(()))
    }
}

/// Whether the folder of a new file is there.
fn in_folder(tree: &Tree, path: &Path) -> io::Result<()> {
    tree.names(path.parent().unwrap_or(path)).map(drop)
}
