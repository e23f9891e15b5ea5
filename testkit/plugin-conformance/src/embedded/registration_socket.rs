//! The files of kubelet's registration socket: each start of kubelet has another inode, unless a case wants the same. Used by
//! `node`, whose kubelet asks this for its sockets.
//!
//! A file system may give a new socket the inode of the one before at any time. Here it is decided: the sockets are bound in a
//! folder that keeps them, and kubelet.sock is a further name of one.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fake_cluster::System;
use fake_cluster::system::{Address, Connection, Files, Listener, Platform, Sockets};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

/// This machine for a kubelet, but for the file of its registration socket.
pub(super) struct KubeletPlatform {
    machine: Arc<dyn Platform>,
    sockets: RegistrationSocket,
}

/// The sockets of the machine, and the one that has its files elsewhere.
pub(super) struct RegistrationSocket {
    machine: Arc<dyn Platform>,
    /// kubelet.sock.
    path: PathBuf,
    /// Where the sockets are that had this name.
    folder: PathBuf,
    next: AtomicU64,
    /// Whether the next kubelet listens on the inode of the one before.
    keeps: AtomicBool,
    held: Mutex<Option<(PathBuf, UnixListener)>>,
}

impl KubeletPlatform {
    /// This machine, with kubelet.sock at `path` and its sockets in `folder`, on the same file system.
    pub(super) fn new(path: PathBuf, folder: PathBuf) -> Self {
        let machine = Arc::clone(System::real().platform());
        let sockets = RegistrationSocket {
            machine: Arc::clone(&machine),
            path,
            folder,
            next: AtomicU64::new(0),
            keeps: AtomicBool::new(false),
            held: Mutex::new(None),
        };
        Self { machine, sockets }
    }

    /// Has the next kubelet listen on the same inode as this one (`true`), or on another.
    pub(super) fn keep_inode(&self, keep: bool) {
        self.sockets.keeps.store(keep, Ordering::SeqCst);
    }

    /// Kubelet has stopped: nobody listens any more.
    pub(super) fn stopped(&self) {
        if !self.sockets.keeps.load(Ordering::SeqCst) {
            self.sockets.held().take();
        }
    }
}

impl Platform for KubeletPlatform {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.machine.spawn(task);
    }

    fn now(&self) -> SystemTime {
        self.machine.now()
    }

    fn random(&self) -> u64 {
        self.machine.random()
    }

    fn files(&self) -> &dyn Files {
        self.machine.files()
    }

    fn sockets(&self) -> &dyn Sockets {
        &self.sockets
    }
}

impl RegistrationSocket {
    fn held(&self) -> MutexGuard<'_, Option<(PathBuf, UnixListener)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A listener for kubelet.sock, which is there from now on.
    fn listen_at_path(&self) -> io::Result<UnixListener> {
        let mut held = self.held();
        match held.as_ref().filter(|_| self.keeps.load(Ordering::SeqCst)) {
            Some((file, listener)) => {
                // What makes another socket of the same inode is its time.
                touch(file)?;
                std::fs::hard_link(file, &self.path)?;
                listener.try_clone()
            }
            None => {
                let file = self.folder.join(self.next.fetch_add(1, Ordering::SeqCst).to_string());
                let listener = UnixListener::bind(&file)?;
                listener.set_nonblocking(true)?;
                std::fs::hard_link(&file, &self.path)?;
                *held = Some((file, listener.try_clone()?));
                Ok(listener)
            }
        }
    }
}

/// Gives the file the time that it is, which is later than the one it has: the kernel's own is some milliseconds behind.
fn touch(file: &Path) -> io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
    let seconds = i64::try_from(now.as_secs()).map_err(io::Error::other)?;
    let now = Timespec { tv_sec: seconds, tv_nsec: now.subsec_nanos().into() };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(utimensat(CWD, file, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

impl Sockets for RegistrationSocket {
    fn listen(&self, address: &Address) -> io::Result<Box<dyn Listener>> {
        if *address != Address::Unix(self.path.clone()) {
            return self.machine.sockets().listen(address);
        }
        let listener = tokio::net::UnixListener::from_std(self.listen_at_path()?)?;
        Ok(Box::new(Linked { listener, path: self.path.clone() }))
    }

    fn connect(&self, address: &Address) -> BoxFuture<'static, io::Result<Connection>> {
        self.machine.sockets().connect(address)
    }
}

/// A socket under a further name.
struct Linked {
    listener: tokio::net::UnixListener,
    path: PathBuf,
}

impl Listener for Linked {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        async { Ok(Connection::new(self.listener.accept().await?.0, "")) }.boxed()
    }

    fn address(&self) -> Address {
        Address::Unix(self.path.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// Listens as kubelet does when it starts; the file's inode and time.
    fn start(platform: &KubeletPlatform, path: &Path) -> (u64, SystemTime) {
        let _gone = std::fs::remove_file(path);
        drop(platform.sockets().listen(&Address::Unix(path.to_owned())).unwrap());
        let file = std::fs::symlink_metadata(path).unwrap();
        (file.ino(), file.modified().unwrap())
    }

    #[tokio::test]
    async fn the_inode_is_the_same_only_where_it_is_wanted_and_the_time_never() {
        let folder = testkit_support::short_folder().unwrap();
        let path = folder.path().join("kubelet.sock");
        std::fs::create_dir(folder.path().join("sockets")).unwrap();
        let platform = KubeletPlatform::new(path.clone(), folder.path().join("sockets"));
        let mut seen = vec![start(&platform, &path)];
        for keep in [false, false, true] {
            platform.keep_inode(keep);
            platform.stopped();
            let connects = std::os::unix::net::UnixStream::connect(&path).is_ok();
            assert_eq!(connects, keep, "nobody listens where kubelet has stopped");
            let (inode, time) = start(&platform, &path);
            let before = seen.last().unwrap();
            assert_eq!(inode == before.0, keep);
            assert!(time > before.1);
            seen.push((inode, time));
        }
    }
}
