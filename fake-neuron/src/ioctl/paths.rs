//! Which device a caller's path means, if any: through its own root and working folder, links of folders and to the node itself
//! included. Called by [`super::supervisor`].

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, openat2, readlinkat, statat};

/// The devices that a caller sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visible {
    /// The device's id on the host, by the number in its node's name.
    by_name: BTreeMap<u8, u8>,
}

impl Visible {
    /// Devices 0 to `devices` - 1 under their own numbers.
    pub fn all(devices: u8) -> Visible {
        (0..devices).map(|device| (device, device)).collect()
    }

    /// The host's device behind `/dev/neuronNUMBER`.
    pub fn device(&self, number: u8) -> Option<u8> {
        self.by_name.get(&number).copied()
    }

    /// The number in the node's name of the host's device.
    fn number(&self, device: u8) -> Option<u8> {
        self.pairs().find_map(|(number, behind)| (behind == device).then_some(number))
    }

    /// What stands at the device's node in a thread's own `/dev`; none where nothing does.
    pub(crate) fn stat(&self, thread: u32, device: u8) -> Option<Stat> {
        let number = self.number(device)?;
        rustix::fs::lstat(format!("/proc/{thread}/root/dev/neuron{number}")).ok()
    }

    /// Pairs of the number in the node's name and the device's id on the host, in order.
    pub fn pairs(&self) -> impl Iterator<Item = (u8, u8)> {
        self.by_name.iter().map(|(number, device)| (*number, *device))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The nodes that stand in a process' own `/dev`: those of a container, by name and minor number, once the runtime has made them.
    /// A plain file, where nodes could not be made, is the device of its name.
    pub fn to_process(process: u32, major: u32) -> Visible {
        let folder = fs::read_dir(format!("/proc/{process}/root/dev")).into_iter().flatten().flatten();
        let nodes = folder.filter_map(|entry| {
            let number = number(entry.file_name().as_bytes())?;
            let node = fs::symlink_metadata(entry.path()).ok()?;
            let device = rustix::fs::minor(node.rdev());
            match rustix::fs::major(node.rdev()) {
                0 if node.is_file() => Some((number, number)),
                found if found == major => Some((number, u8::try_from(device).ok()?)),
                _ => None,
            }
        });
        nodes.collect()
    }
}

impl FromIterator<(u8, u8)> for Visible {
    /// From pairs of the number in the node's name and the device's id on the host.
    fn from_iter<T: IntoIterator<Item = (u8, u8)>>(pairs: T) -> Visible {
        Visible { by_name: pairs.into_iter().collect() }
    }
}

/// A path that means `/dev/neuronNUMBER` of its caller, which need not exist.
#[derive(Debug)]
pub(crate) struct Node {
    /// In the node's name.
    pub(crate) number: u8,
    /// The caller's `/dev`.
    folder: File,
}

impl Node {
    /// The node that a thread's path means; none for any other path. `folder` is what a relative path starts from. Without `follow` a link
    /// as the path's last part is no node.
    pub(crate) fn meant_by(thread: u32, folder: i32, path: &CStr, follow: bool) -> Option<Node> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let named = path.file_name().and_then(|name| number(name.as_bytes()));
        // Nearly every path ends here or at its first folder.
        if named.is_none() && !follow {
            return None;
        }
        let root = rustix::fs::open(format!("/proc/{thread}/root"), FOLDER, Mode::empty()).ok()?;
        let path = absolute(thread, folder, path)?;
        match named {
            Some(number) => Node::at(&root, path.parent()?, number),
            None => Node::behind_link(&root, path),
        }
    }

    fn at(root: &OwnedFd, folder: &Path, number: u8) -> Option<Node> {
        let folder = open_folder(root, folder)?;
        let devices = open_folder(root, Path::new("/dev"))?;
        let (found, wanted) = (folder.metadata().ok()?, devices.metadata().ok()?);
        let is_dev = found.dev() == wanted.dev() && found.ino() == wanted.ino();
        is_dev.then_some(Node { number, folder })
    }

    /// The node that a link of another name leads to, over more links or at once.
    fn behind_link(root: &OwnedFd, mut path: PathBuf) -> Option<Node> {
        /// As many as the kernel follows.
        const MOST_LINKS: usize = 40;
        for _ in 0..MOST_LINKS {
            let (folder, name) = (path.parent()?.to_owned(), path.file_name()?.to_owned());
            let target = readlinkat(open_folder(root, &folder)?, name, Vec::new()).ok()?;
            path = folder.join(Path::new(std::ffi::OsStr::from_bytes(target.to_bytes())));
            if let Some(number) = number(path.file_name()?.as_bytes()) {
                return Node::at(root, path.parent()?, number);
            }
        }
        None
    }

    /// What stands there; none where nothing does.
    pub(crate) fn stat(&self) -> Option<Stat> {
        statat(&self.folder, format!("neuron{}", self.number), AtFlags::SYMLINK_NOFOLLOW).ok()
    }
}

/// What of the host's tree is the machine's, by the paths to which links lead.
const MACHINE_FILES: [&str; 8] = [
    "/dev/neuron",
    "/sys/devices/virtual/neuron_device/",
    "/sys/class/neuron_device/",
    "/sys/module/neuron/",
    "/sys/devices/virtual/dmi/id/",
    "/proc/devices",
    "/proc/modules",
    "/opt/aws/neuron/",
];

/// The file of the machine that a thread's path means, links followed, as a path from the thread's root; none where it is another one
/// or is not there. The machine that is seen there stands at `root`, too, where its own tools read it.
pub(crate) fn machine_file(thread: u32, folder: i32, path: &CStr, root: &Path) -> Option<String> {
    let file = without_links(thread, folder, path)?;
    let file = file.strip_prefix(root).map(|below| Path::new("/").join(below)).unwrap_or(file);
    let file = file.into_os_string().into_string().ok()?;
    MACHINE_FILES.iter().any(|start| file.starts_with(start)).then_some(file)
}

/// Whether a thread's path means a file of the machine in `/sys` that nobody may write: root may write any file, but sysfs lets nobody,
/// root included, open for writing what has no such permission.
pub(crate) fn is_read_only(thread: u32, folder: i32, path: &CStr) -> bool {
    let file = without_links(thread, folder, path).and_then(|file| file.into_os_string().into_string().ok());
    let is_sysfs = |file: &String| {
        MACHINE_FILES.iter().any(|start| start.starts_with("/sys/") && file.starts_with(start))
    };
    let found = file.filter(is_sysfs).and_then(|file| fs::metadata(file).ok());
    found.is_some_and(|found| found.is_file() && found.mode() & 0o222 == 0)
}

/// The file that a thread's path means, links followed; none where there is none. The thread is in this process' mount namespace.
fn without_links(thread: u32, folder: i32, path: &CStr) -> Option<PathBuf> {
    let path = absolute(thread, folder, Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())))?;
    let root = PathBuf::from(format!("/proc/{thread}/root"));
    fs::canonicalize(root.join(path.strip_prefix("/").ok()?)).ok()
}

/// The number of `neuronNUMBER`, 0 to 63, written without leading zeros.
fn number(name: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(name).ok()?.strip_prefix("neuron")?;
    let number: u8 = digits.parse().ok().filter(|number| *number < 64)?;
    (number.to_string() == digits).then_some(number)
}

/// The path from the caller's root.
fn absolute(thread: u32, folder: i32, path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    let start = if folder == CWD_NUMBER {
        format!("/proc/{thread}/cwd")
    } else {
        format!("/proc/{thread}/fd/{folder}")
    };
    let start = fs::read_link(start).ok()?;
    // A changed root shows in these links, a mount namespace does not.
    let root = fs::read_link(format!("/proc/{thread}/root")).ok()?;
    let below = start.strip_prefix(&root).unwrap_or(&start);
    Some(Path::new("/").join(below).join(path))
}

/// How folders are opened that are only looked through.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// `AT_FDCWD`.
const CWD_NUMBER: i32 = -100;

/// A folder below a root, whose links lead nowhere else.
fn open_folder(root: &OwnedFd, path: &Path) -> Option<File> {
    let below = path.strip_prefix("/").unwrap_or(path);
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    openat2(root, below, FOLDER, Mode::empty(), ResolveFlags::IN_ROOT).ok().map(File::from)
}
