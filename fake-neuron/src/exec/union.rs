//! A folder of the machine at the real path of the host's, with everything in it that the host's has and the machine's has not.
//! Called by [`super::real_paths`].
//!
//! The machine's own folder is mounted there, and the host's files are bound into it one by one. So what changes below the machine's
//! root, as a lost device does, changes at the real path in the same moment; an overlay would not show it, and is not allowed to
//! show device nodes without root.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{mount_bind, mount_bind_recursive};

use super::ExecError;

/// A folder of the host, still reachable when something else is mounted over it.
pub(super) struct HostFolder(OwnedFd);

impl HostFolder {
    /// The folder at `path` as it is now.
    ///
    /// # Errors
    /// It is missing: `way_out` says what to do.
    pub(super) fn at(path: &Path, way_out: &'static str) -> Result<Self, ExecError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match open(path, flags, Mode::empty()) {
            Ok(folder) => Ok(Self(folder)),
            Err(Errno::NOENT | Errno::NOTDIR) => Err(ExecError::NoFolder { path: path.to_owned(), way_out }),
            Err(other) => Err(ExecError::at("open", path)(other)),
        }
    }

    /// A path that leads to it.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// Mounts `machine` at `real` and binds into it what `host`, the folder that was there, has besides. `hidden` says by path which of
/// the host's own are not to be seen.
///
/// # Errors
/// The kernel refuses.
pub(super) fn stand(
    machine: &Path,
    real: &Path,
    host: &HostFolder,
    hidden: &dyn Fn(&Path) -> bool,
) -> Result<(), ExecError> {
    mount_bind(machine, real).map_err(ExecError::at("mount", real))?;
    fill(real, &host.path(), hidden)
}

/// Binds into the folder `real` what `host` has and it has not.
///
/// # Errors
/// The kernel refuses.
pub(super) fn fill(real: &Path, host: &Path, hidden: &dyn Fn(&Path) -> bool) -> Result<(), ExecError> {
    let entries = fs::read_dir(host).map_err(ExecError::at("read the host's", real))?;
    for entry in entries {
        let entry = entry.map_err(ExecError::at("read the host's", real))?;
        let (source, target) = (entry.path(), real.join(entry.file_name()));
        if hidden(&target) {
            continue;
        }
        let kind = entry.file_type().map_err(ExecError::at("look at the host's", &target))?;
        match target.symlink_metadata() {
            Ok(standing) if standing.is_dir() && kind.is_dir() => fill(&target, &source, hidden)?,
            // The machine's own.
            Ok(_) => {}
            Err(_) => bind(&source, &target, kind)?,
        }
    }
    Ok(())
}

fn bind(source: &Path, target: &Path, kind: fs::FileType) -> Result<(), ExecError> {
    let done = if kind.is_symlink() {
        fs::read_link(source).and_then(|link| symlink(link, target))
    } else if kind.is_dir() {
        // What is mounted below it must come along: without root it may not be uncovered.
        fs::create_dir(target).and_then(|()| Ok(mount_bind_recursive(source, target)?))
    } else {
        File::create(target).and_then(|_| Ok(mount_bind(source, target)?))
    };
    match done {
        // It went since the folder was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(ExecError::at("show the host's", target)),
    }
}

/// Whether `name` is that of a Neuron device's node.
pub(super) fn is_device(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_prefix("neuron"));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
