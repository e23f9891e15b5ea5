//! The files of one host by their paths. Paths are absolute and have no `.` and no `..`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use runtime::system::{DeviceNumber, FileKind};
use rustc_hash::FxBuildHasher;

use super::lock::Inode;

/// Links followed before a path is given up, as Linux does.
const MOST_LINKS: usize = 40;

/// Every file of a host.
#[derive(Default)]
pub(crate) struct Tree {
    #[allow(
        clippy::disallowed_types,
        reason = "never iterated, as folders know what is in them, and looked up all the time"
    )]
    entries: std::collections::HashMap<Box<[u8]>, Entry, FxBuildHasher>,
    inodes: u64,
}

/// What is at a path.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) content: Content,
    /// Shared by who has it open, so that it outlives its name.
    pub(crate) inode: Arc<Inode>,
}

/// What a file holds.
#[derive(Clone)]
pub(crate) enum Content {
    Folder(BTreeSet<OsString>),
    Bytes(Arc<[u8]>),
    Link(PathBuf),
    Node(DeviceNumber),
    Socket,
}

impl Entry {
    pub(crate) fn status(&self) -> (FileKind, u64, SystemTime) {
        let kind = match self.content {
            Content::Folder(_) => FileKind::Folder,
            Content::Bytes(_) => FileKind::File,
            Content::Socket => FileKind::Socket,
            Content::Link(_) | Content::Node(_) => FileKind::Other,
        };
        (kind, self.inode.number, self.inode.modified())
    }
}

impl Tree {
    /// What is at the path, itself and not what it links to.
    pub(crate) fn get(&self, path: &Path) -> Option<&Entry> {
        let at = |path: &Path| self.entries.get(path.as_os_str().as_bytes());
        at(path).or_else(|| at(&self.resolved(path)?))
    }

    /// The file's bytes, links followed.
    pub(crate) fn bytes(&self, path: &Path) -> io::Result<Arc<[u8]>> {
        match &self.followed(path)?.content {
            Content::Bytes(bytes) => Ok(Arc::clone(bytes)),
            Content::Folder(_) => Err(ErrorKind::IsADirectory.into()),
            _ => Err(io::Error::other("No such device or address")),
        }
    }

    /// The number of the device whose node it is, links followed; none if it is no node.
    pub(crate) fn device_number(&self, path: &Path) -> io::Result<Option<DeviceNumber>> {
        Ok(match self.followed(path)?.content {
            Content::Node(number) => Some(number),
            _ => None,
        })
    }

    /// What the path leads to.
    fn followed(&self, path: &Path) -> io::Result<&Entry> {
        let mut entry = self.get(path).ok_or(ErrorKind::NotFound)?;
        let mut path = Cow::Borrowed(path);
        for _ in 0..MOST_LINKS {
            let Content::Link(target) = &entry.content else { return Ok(entry) };
            path = Cow::Owned(joined(path.parent().unwrap_or(&path), target));
            entry = self.get(&path).ok_or(ErrorKind::NotFound)?;
        }
        Err(io::Error::other("Too many levels of symbolic links"))
    }

    /// The names in a folder, sorted.
    pub(crate) fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        match &self.get(folder).ok_or(ErrorKind::NotFound)?.content {
            Content::Folder(names) => Ok(names.iter().cloned().collect()),
            Content::Link(target) => self.names(&joined(folder.parent().unwrap_or(folder), target)),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Puts a file at the path, in place of another one. The folders that lead to it are made.
    pub(crate) fn put(&mut self, path: &Path, content: Content, now: SystemTime) -> io::Result<()> {
        let inode = Arc::new(self.new_inode(now));
        self.place(path, Entry { content, inode }, now)
    }

    /// Makes a folder and those that lead to it.
    pub(crate) fn make_folder(&mut self, path: &Path, now: SystemTime) -> io::Result<()> {
        match self.get(path).map(|entry| &entry.content) {
            Some(Content::Folder(_)) => Ok(()),
            Some(_) => Err(ErrorKind::NotADirectory.into()),
            None => self.put(path, Content::Folder(BTreeSet::new()), now),
        }
    }

    /// Gives what is at `from` the name `to`.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path, now: SystemTime) -> io::Result<()> {
        if !self
            .get(to.parent().unwrap_or(to))
            .is_some_and(|entry| matches!(entry.content, Content::Folder(_)))
        {
            return Err(ErrorKind::NotFound.into());
        }
        if self.get(from).is_some_and(|entry| matches!(entry.content, Content::Folder(_))) {
            return Err(io::Error::new(ErrorKind::Unsupported, "folders are not renamed here"));
        }
        let entry = self.take(from).ok_or(ErrorKind::NotFound)?;
        self.place(to, entry, now)
    }

    /// Gives what is at `from`, and all that is below it, the path `to`. The folders that lead there are made.
    pub(crate) fn move_all(&mut self, from: &Path, to: &Path, now: SystemTime) -> io::Result<()> {
        let Some(Content::Folder(names)) = self.get(from).map(|entry| entry.content.clone()) else {
            let entry = self.take(from).ok_or(ErrorKind::NotFound)?;
            return self.place(to, entry, now);
        };
        self.make_folder(to, now)?;
        names.iter().try_for_each(|name| self.move_all(&from.join(name), &to.join(name), now))?;
        self.take(from);
        Ok(())
    }

    /// Removes a file; not a folder.
    pub(crate) fn remove(&mut self, path: &Path) -> io::Result<()> {
        match self.get(path).map(|entry| &entry.content) {
            None => Err(ErrorKind::NotFound.into()),
            Some(Content::Folder(_)) => Err(ErrorKind::IsADirectory.into()),
            Some(_) => {
                self.take(path);
                Ok(())
            }
        }
    }

    /// Removes what is at the path and below it. Whether anything was.
    pub(crate) fn remove_all(&mut self, path: &Path) -> bool {
        let Some(entry) = self.get(path).cloned() else { return false };
        if let Content::Folder(names) = entry.content {
            for name in names {
                self.remove_all(&path.join(name));
            }
        }
        self.take(path).is_some()
    }

    fn new_inode(&mut self, now: SystemTime) -> Inode {
        self.inodes += 1;
        Inode::new(self.inodes, now)
    }

    fn take(&mut self, path: &Path) -> Option<Entry> {
        let taken = self.entries.remove(path.as_os_str().as_bytes())?;
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name())
            && let Some(Entry { content: Content::Folder(names), .. }) =
                self.entries.get_mut(folder.as_os_str().as_bytes())
        {
            names.remove(name);
        }
        Some(taken)
    }

    fn place(&mut self, path: &Path, entry: Entry, now: SystemTime) -> io::Result<()> {
        let normal = |part| matches!(part, Component::RootDir | Component::Normal(_));
        if !path.is_absolute() || !path.components().all(normal) {
            let why = format!("{} is not an absolute path without dots", path.display());
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        if matches!(self.get(path), Some(Entry { content: Content::Folder(_), .. })) {
            return Err(ErrorKind::IsADirectory.into());
        }
        if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
            self.make_folder(folder, now)?;
            if let Some(Entry { content: Content::Folder(names), .. }) =
                self.entries.get_mut(folder.as_os_str().as_bytes())
            {
                names.insert(name.to_owned());
            }
        }
        self.entries.insert(path.as_os_str().as_bytes().into(), entry);
        Ok(())
    }

    /// The path with links among its folders followed; none if there are none.
    fn resolved(&self, path: &Path) -> Option<PathBuf> {
        let bytes = path.as_os_str().as_bytes();
        let mut end = bytes.len();
        while let Some(slash) = bytes[..end].iter().rposition(|byte| *byte == b'/') {
            let folder = &bytes[..slash.max(1)];
            match self.entries.get(folder).map(|entry| &entry.content) {
                None if slash > 0 => end = slash,
                Some(Content::Link(target)) => {
                    let rest = OsStr::from_bytes(&bytes[slash + 1..]);
                    let folder = Path::new(OsStr::from_bytes(folder));
                    let followed = joined(folder.parent().unwrap_or(folder), target).join(rest);
                    return Some(self.resolved(&followed).unwrap_or(followed));
                }
                // A folder that is there under this very name has no link before it.
                _ => return None,
            }
        }
        None
    }
}

/// `target` as seen from `folder`, without dots.
fn joined(folder: &Path, target: &Path) -> PathBuf {
    let mut path = folder.to_owned();
    for part in target.components() {
        match part {
            Component::RootDir => path = PathBuf::from("/"),
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn bytes(text: &str) -> Content {
        Content::Bytes(text.as_bytes().into())
    }

    #[test]
    fn links_are_followed_as_the_last_part_and_on_the_way() {
        let mut tree = Tree::default();
        tree.put(Path::new("/sys/devices/d0/count"), bytes("8"), NOW).unwrap();
        tree.put(Path::new("/sys/class/d0"), Content::Link("../devices/d0".into()), NOW).unwrap();
        tree.put(Path::new("/abs"), Content::Link("/sys/devices/d0/count".into()), NOW).unwrap();
        tree.put(Path::new("/loop"), Content::Link("loop".into()), NOW).unwrap();
        for path in ["/sys/devices/d0/count", "/sys/class/d0/count", "/abs"] {
            assert_eq!(*tree.bytes(Path::new(path)).unwrap(), *b"8", "{path}");
        }
        assert_eq!(tree.names(Path::new("/sys/class/d0")).unwrap(), ["count"]);
        assert!(tree.bytes(Path::new("/loop")).is_err() && tree.bytes(Path::new("/gone")).is_err());
    }

    #[test]
    fn a_node_is_known_by_its_number_through_links() {
        let (mut tree, number) = (Tree::default(), DeviceNumber { major: 245, minor: 3 });
        tree.put(Path::new("/dev/d3"), Content::Node(number), NOW).unwrap();
        tree.put(Path::new("/proc/7/fd/3"), Content::Link("/dev/d3".into()), NOW).unwrap();
        for path in ["/dev/d3", "/proc/7/fd/3"] {
            assert_eq!(tree.device_number(Path::new(path)).unwrap(), Some(number), "{path}");
        }
        assert_eq!(tree.device_number(Path::new("/dev")).unwrap(), None);
        tree.remove(Path::new("/dev/d3")).unwrap();
        assert!(tree.device_number(Path::new("/proc/7/fd/3")).is_err());
    }

    #[test]
    fn what_is_removed_leaves_its_folder() {
        let mut tree = Tree::default();
        for name in ["a", "b/c"] {
            tree.put(&Path::new("/f").join(name), bytes(name), NOW).unwrap();
        }
        tree.rename(Path::new("/f/a"), Path::new("/f/d"), NOW).unwrap();
        assert_eq!(tree.names(Path::new("/f")).unwrap(), ["b", "d"]);
        assert!(tree.remove_all(Path::new("/f/b")) && !tree.remove_all(Path::new("/f/b")));
        tree.remove(Path::new("/f/d")).unwrap();
        assert_eq!(tree.names(Path::new("/f")).unwrap(), [""; 0]);
        assert_eq!(tree.remove(Path::new("/f")).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(tree.entries.len(), 2, "the root and the folder");
    }

    #[test]
    fn what_is_moved_is_there_with_all_below_it_and_here_no_more() {
        let mut tree = Tree::default();
        tree.put(Path::new("/a/f/x"), bytes("x"), NOW).unwrap();
        tree.put(Path::new("/a/f/g/y"), Content::Link("../x".into()), NOW).unwrap();
        tree.move_all(Path::new("/a/f"), Path::new("/b/c"), NOW).unwrap();
        assert_eq!(*tree.bytes(Path::new("/b/c/g/y")).unwrap(), *b"x");
        assert_eq!(tree.names(Path::new("/a")).unwrap(), [""; 0]);
        let again = tree.move_all(Path::new("/a/f"), Path::new("/b/c"), NOW);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_new_file_of_an_old_name_is_another_file() {
        let mut tree = Tree::default();
        let inode = |tree: &Tree| tree.get(Path::new("/f")).unwrap().status().1;
        tree.put(Path::new("/f"), bytes("1"), NOW).unwrap();
        let before = inode(&tree);
        tree.put(Path::new("/f"), bytes("2"), NOW).unwrap();
        assert_ne!(inode(&tree), before);
    }
}
