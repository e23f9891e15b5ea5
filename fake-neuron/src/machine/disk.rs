//! Writes entries below one root and removes them again. Called by [`crate::machine`], [`crate::machine::health`] and
//! [`crate::node`].

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use crate::MachineError;
use crate::machine::tree::{DRIVER_MAJOR, Entry, Kind};

/// Folders in the root whose name starts so hold what is not yet, or no longer, part of the machine.
const WORK: &str = ".fake-neuron.work";

/// Folder of run-time state, below the root.
pub(crate) const STATE: &str = ".fake-neuron";

/// Makes all of `entries` below `root` or none: they are built aside and then moved in. `name` keeps the work of two
/// callers apart.
///
/// # Errors
/// A foreign file in the way, a folder that leads elsewhere, the file system's refusal.
pub(crate) fn place(root: &Path, name: &str, entries: &[Entry]) -> Result<(), MachineError> {
    check_folders(root, entries)?;
    if let Some(taken) = entries.iter().map(|entry| root.join(&entry.path)).find(|path| is_there(path)) {
        return Err(MachineError::InTheWay { path: taken });
    }
    let work = root.join(format!("{WORK}-{name}"));
    remove_folder(&work)?;
    let placed = build(&work, entries).and_then(|()| merge(&work, root));
    let cleaned = remove_folder(&work);
    if placed.is_err() {
        // The first error is the one to tell; what is left carries the work folder's name and goes with the next call.
        let _ = remove(root, entries);
    }
    placed.and(cleaned)
}

/// Removes exactly `entries` and the folders that they leave empty. An entry that is already gone is no error.
pub(crate) fn remove(root: &Path, entries: &[Entry]) -> Result<(), MachineError> {
    check_folders(root, entries)?;
    for entry in entries {
        remove_file(&root.join(&entry.path))?;
    }
    // Deepest first: a folder sorts before what is in it.
    for folder in folders(entries).into_iter().rev() {
        let path = root.join(folder);
        match fs::remove_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                ignore_missing(Err(error)).map_err(MachineError::io("remove", &path))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes a file, a link or a device node. One that is already gone is no error.
pub(crate) fn remove_file(path: &Path) -> Result<(), MachineError> {
    ignore_missing(fs::remove_file(path)).map_err(MachineError::io("remove", path))
}

/// Takes a whole folder away at once: readers see all of it or nothing.
pub(crate) fn vanish(root: &Path, name: &str, folder: &str) -> Result<(), MachineError> {
    let (path, work) = (root.join(folder), root.join(format!("{WORK}-{name}")));
    remove_folder(&work)?;
    ignore_missing(fs::rename(&path, &work)).map_err(MachineError::io("remove", &path))?;
    remove_folder(&work)
}

/// Writes one file in one step: readers see the old content or the new.
pub(crate) fn replace(root: &Path, path: &str, content: &str, mode: u32) -> Result<(), MachineError> {
    let target = root.join(path);
    // The whole path is in the name, so that two files can be replaced at once.
    let work = root.join(format!("{WORK}-{}", path.replace('/', "-")));
    remove_file(&work)?;
    write(&work, content, mode)?;
    let moved = fs::rename(&work, &target).map_err(MachineError::io("write", &target));
    if moved.is_err() {
        // The first error is the one to tell.
        let _ = remove_file(&work);
    }
    moved
}

/// Removes the folder of run-time state.
pub(crate) fn remove_state(root: &Path) -> Result<(), MachineError> {
    let path = root.join(STATE);
    if path.is_symlink() { remove_file(&path) } else { remove_folder(&path) }
}

/// Whether anything is at `path`, a dangling link included.
pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Removes what interrupted calls left behind.
pub(crate) fn sweep(root: &Path) -> Result<(), MachineError> {
    for path in children(root)?.into_iter().filter(|path| is_work(path)) {
        if path.is_dir() {
            remove_folder(&path)?;
        } else {
            remove_file(&path)?;
        }
    }
    Ok(())
}

/// Whether the folder holds nothing but what interrupted calls left behind.
pub(crate) fn is_empty(root: &Path) -> Result<bool, MachineError> {
    Ok(children(root)?.iter().all(|path| is_work(path)))
}

/// Refuses entries whose folders are links or files by now: following them could lead out of the root.
pub(crate) fn check_folders(root: &Path, entries: &[Entry]) -> Result<(), MachineError> {
    for folder in folders(entries) {
        let path = root.join(folder);
        match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_dir() => return Err(MachineError::NotAFolder { path }),
            _ => {}
        }
    }
    Ok(())
}

/// As [`check_folders`], for the folders that lead to one path.
pub(crate) fn check_parents(root: &Path, below: &str) -> Result<(), MachineError> {
    for folder in parents(below) {
        let path = root.join(folder);
        match path.symlink_metadata() {
            Ok(metadata) if !metadata.is_dir() => return Err(MachineError::NotAFolder { path }),
            _ => {}
        }
    }
    Ok(())
}

/// Removes the folders that lead to a path, from the inside out, as far as they are empty.
pub(crate) fn remove_empty_parents(root: &Path, below: &str) -> Result<(), MachineError> {
    for folder in parents(below) {
        let path = root.join(folder);
        match fs::remove_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(()),
            other => ignore_missing(other).map_err(MachineError::io("remove", &path))?,
        }
    }
    Ok(())
}

/// The folders that lead to a path below the root, inner ones first.
fn parents(below: &str) -> impl Iterator<Item = &Path> {
    Path::new(below).ancestors().skip(1).filter(|path| !path.as_os_str().is_empty())
}

/// Every folder that leads to one of `entries`, outer ones first.
fn folders(entries: &[Entry]) -> BTreeSet<&Path> {
    let parents = entries.iter().flat_map(|entry| Path::new(&entry.path).ancestors().skip(1));
    parents.filter(|path| !path.as_os_str().is_empty()).collect()
}

fn build(folder: &Path, entries: &[Entry]) -> Result<(), MachineError> {
    fs::create_dir_all(folder).map_err(MachineError::io("make", folder))?;
    for inner in folders(entries) {
        let path = folder.join(inner);
        fs::create_dir(&path).map_err(MachineError::io("make", &path))?;
    }
    for entry in entries {
        let path = folder.join(&entry.path);
        match &entry.kind {
            Kind::File { content, mode } => write(&path, content, *mode)?,
            Kind::Link { target } => symlink(target, &path).map_err(MachineError::io("link", &path))?,
            Kind::Node { minor } => make_node(&path, *minor)?,
        }
    }
    Ok(())
}

/// Writes a new file with exactly this mode, whatever the process' umask.
pub(crate) fn write(path: &Path, content: &str, mode: u32) -> Result<(), MachineError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(content.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))
    });
    written.map_err(MachineError::io("write", path))
}

/// Mode 0666, as the driver's udev rule gives it.
fn make_node(path: &Path, minor: u8) -> Result<(), MachineError> {
    let device = makedev(DRIVER_MAJOR, u32::from(minor));
    let everybody = Mode::from_raw_mode(0o666);
    match mknodat(CWD, path, FileType::CharacterDevice, everybody, device) {
        Ok(()) => {}
        // Only root may make nodes, and not in every container.
        Err(Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP) => write(path, "", 0o666)?,
        Err(refused) => return Err(MachineError::io("make", path)(refused.into())),
    }
    // The process' umask took bits away.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(MachineError::io("make", path))
}

/// Moves everything in `from` to the same place in `to`, whole folders at once where they are new.
fn merge(from: &Path, to: &Path) -> Result<(), MachineError> {
    for source in children(from)? {
        let Some(name) = source.file_name() else { continue };
        let target = to.join(name);
        if !is_there(&target) {
            fs::rename(&source, &target).map_err(MachineError::io("make", &target))?;
        } else if source.is_dir() && !source.is_symlink() {
            merge(&source, &target)?;
        } else {
            return Err(MachineError::InTheWay { path: target });
        }
    }
    Ok(())
}

fn children(folder: &Path) -> Result<Vec<PathBuf>, MachineError> {
    let entries = fs::read_dir(folder).map_err(MachineError::io("read", folder))?;
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(MachineError::io("read", folder))).collect()
}

fn is_work(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(WORK))
}

/// Removes a folder with all that is in it. One that is already gone is no error.
pub(crate) fn remove_folder(path: &Path) -> Result<(), MachineError> {
    ignore_missing(fs::remove_dir_all(path)).map_err(MachineError::io("remove", path))
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
