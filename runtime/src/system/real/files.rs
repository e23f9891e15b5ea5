//! The kernel's files. Each operation runs on a thread that may block, so that a file that hangs holds up nobody else; but for the look
//! at a file that the kernel has in memory, which cannot.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{File, FileTimes, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatxFlags, makedev, openat2, statx};
use tokio::sync::watch;

use super::looks::Looks;
use crate::system::files::{DeviceNumber, FileKind, FileStatus, Files, LockFile};

/// The kernel's files.
#[derive(Default)]
pub(super) struct Disk {
    /// Files that are being read. One that hangs keeps one thread, however often it is asked for.
    reading: Arc<Mutex<BTreeSet<PathBuf>>>,
    looks: Looks,
}

impl Files for Disk {
    fn read(&self, path: &Path) -> BoxFuture<'static, io::Result<Vec<u8>>> {
        let (path, reading) = (path.to_owned(), Arc::clone(&self.reading));
        if !locked(&reading).insert(path.clone()) {
            let why = "an earlier read of this file has not ended";
            return ready(Err(io::Error::new(io::ErrorKind::TimedOut, why))).boxed();
        }
        blocking(move || {
            let read = std::fs::read(&path);
            locked(&reading).remove(&path);
            read
        })
    }

    fn replace(&self, path: &Path, contents: Vec<u8>) -> BoxFuture<'static, io::Result<()>> {
        let path = path.to_owned();
        blocking(move || {
            let beside = path.with_added_extension("new");
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            io::Write::write_all(&mut options.open(&beside)?, &contents)?;
            std::fs::rename(&beside, &path)
        })
    }

    fn names(&self, folder: &Path) -> BoxFuture<'static, io::Result<Vec<OsString>>> {
        self.looks.look(folder, |folder| {
            let names = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
            let mut names = names.collect::<io::Result<Vec<_>>>()?;
            names.sort();
            Ok(names)
        })
    }

    fn status(&self, path: &Path) -> BoxFuture<'static, io::Result<FileStatus>> {
        if let Some(status) = cached_status(path) {
            return ready(Ok(status)).boxed();
        }
        self.looks.look(path, |path| status(&std::fs::symlink_metadata(path)?))
    }

    fn device_number(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<DeviceNumber>>> {
        self.looks.look(path, |path| {
            let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::MODE)?;
            let is_device = FileType::from_raw_mode(found.stx_mode.into()).is_char_device();
            let number = DeviceNumber { major: found.stx_rdev_major, minor: found.stx_rdev_minor };
            Ok(is_device.then_some(number))
        })
    }

    fn create_folder(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let path = path.to_owned();
        blocking(move || std::fs::create_dir_all(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> BoxFuture<'static, io::Result<()>> {
        let (from, to) = (from.to_owned(), to.to_owned());
        blocking(move || std::fs::rename(from, to))
    }

    fn remove(&self, path: &Path) -> BoxFuture<'static, io::Result<()>> {
        let path = path.to_owned();
        blocking(move || std::fs::remove_file(path))
    }

    fn create_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Arc<dyn LockFile>>> {
        let path = path.to_owned();
        blocking(move || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
            Ok(Arc::new(file) as Arc<dyn LockFile>)
        })
    }

    fn open_lock_file(&self, path: &Path) -> BoxFuture<'static, io::Result<Option<Arc<dyn LockFile>>>> {
        let path = path.to_owned();
        blocking(move || match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Ok(Some(Arc::new(file) as Arc<dyn LockFile>)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn watch(&self, folder: &Path, changes: watch::Sender<()>) -> io::Result<Box<dyn Send + Sync>> {
        let tell = move |event: notify::Result<notify::Event>| {
            // Reading a file is an event too, and must not lead to the next reading; nor is a sign of life, which is a new
            // time of a lock file.
            let is_silent = |kind: EventKind| {
                kind.is_access() || matches!(kind, EventKind::Modify(ModifyKind::Metadata(_)))
            };
            if !event.is_ok_and(|event| is_silent(event.kind)) {
                changes.send_replace(());
            }
        };
        let watcher = notify::recommended_watcher(tell).and_then(|mut watcher: RecommendedWatcher| {
            watcher.watch(folder, RecursiveMode::NonRecursive)?;
            Ok(watcher)
        });
        Ok(Box::new(watcher.map_err(io::Error::other)?))
    }
}

impl LockFile for File {
    fn try_lock(&self) -> io::Result<bool> {
        match File::try_lock(self) {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        File::unlock(self)
    }

    fn status(&self) -> io::Result<FileStatus> {
        status(&self.metadata()?)
    }

    fn set_modified(self: Arc<Self>, time: SystemTime) -> BoxFuture<'static, io::Result<()>> {
        // The time of the last read with it: alone, the kernel tells of it as of new bytes.
        blocking(move || self.set_times(FileTimes::new().set_modified(time).set_accessed(time)))
    }
}

/// What the kernel has in memory of what is at the path; none where it would have to ask a disk, a server or a driver, or is older than
/// Linux 5.12. To wake another thread for it and be woken takes as long as an empty call of kubelet. On a server's file system the answer
/// may be some seconds old.
fn cached_status(path: &Path) -> Option<FileStatus> {
    let here = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat2(CWD, path, here, Mode::empty(), ResolveFlags::CACHED).ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(file, c"", flags, StatxFlags::TYPE | StatxFlags::INO | StatxFlags::MTIME).ok()?;
    let kind = match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Folder,
        FileType::Socket => FileKind::Socket,
        _ => FileKind::Other,
    };
    let since_epoch = Duration::new(found.stx_mtime.tv_sec.try_into().ok()?, found.stx_mtime.tv_nsec);
    Some(FileStatus {
        kind,
        device: makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        modified: SystemTime::UNIX_EPOCH + since_epoch,
    })
}

fn status(of: &Metadata) -> io::Result<FileStatus> {
    let kind = of.file_type();
    let kind = if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Folder
    } else if kind.is_socket() {
        FileKind::Socket
    } else {
        FileKind::Other
    };
    Ok(FileStatus { kind, device: of.dev(), inode: of.ino(), modified: of.modified()? })
}

pub(super) fn blocking<T: Send + 'static>(
    operation: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> BoxFuture<'static, io::Result<T>> {
    async { tokio::task::spawn_blocking(operation).await.map_err(io::Error::other)? }.boxed()
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_has_in_memory_is_what_a_thread_that_may_block_finds() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        for name in ["file", "", "link", "socket"] {
            let path = folder.path().join(name);
            let found = status(&std::fs::symlink_metadata(&path).unwrap()).unwrap();
            assert_eq!(cached_status(&path), Some(found), "{name:?}");
        }
        assert_eq!(cached_status(Path::new("/sys/kernel/mm")), None, "only its driver knows");
        assert_eq!(cached_status(&folder.path().join("gone")), None);
    }
}
