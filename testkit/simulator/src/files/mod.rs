//! Files in memory: those of a host ([`FileSystem`]), and a process' way to them.

mod lock;
mod of_process;
mod sockets;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use runtime::system::{DeviceNumber, FileStatus};
use tokio::sync::{Notify, watch};

pub(crate) use self::of_process::ProcessFiles;
use self::sockets::Listening;
use self::tree::{Content, Entry, Tree};
use crate::time::Clock;

/// A host's files. Whoever makes the machine writes them here, at once and without a process.
pub struct FileSystem {
    clock: Clock,
    state: Mutex<State>,
    /// Told when a path hangs no longer.
    recovered: Notify,
}

#[derive(Default)]
struct State {
    tree: Tree,
    watches: Vec<FolderWatched>,
    /// Nothing at or below these paths can be read.
    hung: BTreeSet<PathBuf>,
    /// The bytes of these files cannot be read.
    unreadable: BTreeSet<PathBuf>,
    /// No process can write these files; whether one has tried.
    full: BTreeMap<PathBuf, bool>,
    listening: Vec<Listening>,
    /// Number of reads, listings and looks since the beginning.
    reads: u64,
}

struct FolderWatched {
    folder: PathBuf,
    changes: watch::Sender<()>,
}

impl FileSystem {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default(), recovered: Notify::new() }
    }

    /// Writes a file, with the folders that lead to it. One that is there is replaced.
    ///
    /// # Errors
    /// The path leads through a file, or a folder is in its place.
    pub fn write(&self, path: &Path, contents: impl Into<Vec<u8>>) -> io::Result<()> {
        self.change(path, |tree, now| tree.put(path, Content::Bytes(contents.into().into()), now))
    }

    /// Makes a character device's node, which has no bytes, with the folders that lead to it.
    ///
    /// # Errors
    /// As [`FileSystem::write`].
    pub fn make_node(&self, path: &Path, number: DeviceNumber) -> io::Result<()> {
        self.change(path, |tree, now| tree.put(path, Content::Node(number), now))
    }

    /// Makes a link, with the folders that lead to it. `target` is relative to the link's folder, or absolute.
    ///
    /// # Errors
    /// As [`FileSystem::write`].
    pub fn make_link(&self, path: &Path, target: &Path) -> io::Result<()> {
        self.change(path, |tree, now| tree.put(path, Content::Link(target.to_owned()), now))
    }

    /// Makes a folder, with those that lead to it. One that is there is no error.
    ///
    /// # Errors
    /// The path leads through a file.
    pub fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.change(path, |tree, now| tree.make_folder(path, now))
    }

    /// Removes what is at the path, and all that is below it. Nothing there is no error.
    pub fn remove_all(&self, path: &Path) {
        let mut state = self.state();
        // What comes in its place is another file.
        state.hung.retain(|hung| !hung.starts_with(path));
        state.unreadable.retain(|unreadable| !unreadable.starts_with(path));
        state.full.retain(|full, _| !full.starts_with(path));
        if state.tree.remove_all(path) {
            state.tell(path);
        }
    }

    /// Gives what is at `from`, and all that is below it, the path `to`, with the folders that lead there.
    ///
    /// # Errors
    /// Nothing is at `from`, the new path leads through a file, or a folder is in its place.
    pub fn move_all(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(to, |tree, now| tree.move_all(from, to, now))?;
        self.state().tell(from);
        Ok(())
    }

    /// Whether anything is at the path.
    pub fn exists(&self, path: &Path) -> bool {
        self.state().tree.get(path).is_some()
    }

    /// The bytes of a file, for who looks from outside.
    ///
    /// # Errors
    /// There is no such file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.state().tree.bytes(path).map(|bytes| bytes.to_vec())
    }

    /// The names in a folder, sorted; none if there is no such folder.
    pub fn names(&self, folder: &Path) -> Vec<String> {
        let names = self.state().tree.names(folder).unwrap_or_default();
        names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect()
    }

    /// Has every read at or below the path hang from now on (`true`), as those of a broken device do, or work again.
    pub fn set_hung(&self, path: &Path, hangs: bool) {
        let mut state = self.state();
        if hangs {
            state.hung.insert(path.to_owned());
        } else {
            state.hung.remove(path);
            drop(state);
            self.recovered.notify_waiters();
        }
    }

    /// Has every read of this file's bytes by a process fail from now on (`true`), as on a disk that has lost them, or work again. What
    /// it is, and what takes its place, can be seen all the same.
    pub fn set_unreadable(&self, path: &Path, fails: bool) {
        let mut state = self.state();
        if fails {
            state.unreadable.insert(path.to_owned());
        } else {
            state.unreadable.remove(path);
        }
    }

    /// Whether every read of this file's bytes by a process fails now.
    pub fn is_unreadable(&self, path: &Path) -> bool {
        self.state().unreadable.contains(path)
    }

    /// Has every write of this file by a process fail from now on, for want of space.
    pub fn fill_up(&self, path: &Path) {
        self.state().full.insert(path.to_owned(), false);
    }

    /// The file can be written again. Whether a write has failed meanwhile.
    pub fn make_room(&self, path: &Path) -> bool {
        self.state().full.remove(path).unwrap_or_default()
    }

    /// How often processes have read, listed or looked at something.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    fn change<T>(
        &self,
        path: &Path,
        change: impl FnOnce(&mut Tree, SystemTime) -> io::Result<T>,
    ) -> io::Result<T> {
        let now = SystemTime::UNIX_EPOCH + self.clock.wall(0);
        let mut state = self.state();
        let done = change(&mut state.tree, now)?;
        state.tell(path);
        Ok(done)
    }

    /// Waits until the path does not hang.
    async fn answers(&self, path: &Path) {
        loop {
            let recovered = self.recovered.notified();
            if !self.state().hangs(path) {
                return;
            }
            recovered.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether there is no space for this file; it is noted that a process has tried to write it.
    fn refuses(&mut self, path: &Path) -> bool {
        let full = self.full.get_mut(path);
        full.is_some_and(|tried| {
            *tried = true;
            true
        })
    }

    fn hangs(&self, path: &Path) -> bool {
        !self.hung.is_empty() && self.hung.iter().any(|hung| path.starts_with(hung))
    }

    /// Tells those who watch the path's folder.
    fn tell(&mut self, path: &Path) {
        if self.watches.is_empty() {
            return;
        }
        self.watches.retain(|watched| watched.changes.receiver_count() > 0);
        let folder = path.parent().unwrap_or(path).as_os_str().as_bytes();
        let watches = self.watches.iter().filter(|watched| watched.folder.as_os_str().as_bytes() == folder);
        watches.for_each(|watched| watched.changes.send_replace(()));
    }
}

/// What a status says of an entry.
fn status(host: usize, entry: &Entry) -> FileStatus {
    let (kind, inode, modified) = entry.status();
    FileStatus { kind, device: host as u64, inode, modified }
}
