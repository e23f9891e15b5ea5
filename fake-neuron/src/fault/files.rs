//! Looks a machine's files up for [`super::changes`]: on the disk of a machine that stands, or in the list of one whose files are
//! kept elsewhere.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::FaultError;
use crate::machine::description::Description;
use crate::machine::disk;
use crate::machine::tree::{self, Kind};
use crate::{Blueprint, Machine};

/// What the changes of a fault depend on.
pub(crate) trait Files {
    /// What the machine is.
    fn description(&self) -> &Description;

    /// The text of a file below the root; none if there is no such file.
    fn text(&self, path: &str) -> Option<String>;

    /// The file that a user named, as a path below the root without links, so that the class' name of a device is the same as its own.
    ///
    /// # Errors
    /// It is no file of the machine.
    fn file_named(&self, name: &str) -> Result<String, FaultError>;

    /// Where a file of a device is, if not at `path`, where its driver is known to have it.
    fn other_place(&self, path: &str, device: u8, name: &str) -> Option<String>;
}

impl Files for Machine {
    fn description(&self) -> &Description {
        Machine::description(self)
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }

    fn file_named(&self, name: &str) -> Result<String, FaultError> {
        let root = self.root();
        let wrong = || FaultError::NoFile { root: root.to_owned(), path: name.to_owned() };
        let path = root.join(below(name).ok_or_else(wrong)?).canonicalize().map_err(|_| wrong())?;
        let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        let below = path.strip_prefix(root).ok().filter(|_| is_file).and_then(Path::to_str);
        // Our own bookkeeping is no part of the machine.
        below.filter(|below| !below.starts_with('.')).map(str::to_owned).ok_or_else(wrong)
    }

    fn other_place(&self, path: &str, device: u8, name: &str) -> Option<String> {
        let is_elsewhere = Machine::description(self).replayed && !disk::is_there(&self.root().join(path));
        is_elsewhere.then(|| captured_place(self, &tree::sysfs_folder(device), name)).flatten()
    }
}

impl Files for Blueprint {
    fn description(&self) -> &Description {
        Blueprint::description(self)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.files().into_iter().find_map(|entry| match entry.kind {
            Kind::File { content, .. } if entry.path == path => Some(content),
            _ => None,
        })
    }

    fn file_named(&self, name: &str) -> Result<String, FaultError> {
        let wrong = || FaultError::NoFile { root: PathBuf::from("/"), path: name.to_owned() };
        let below = below(name).ok_or_else(wrong)?;
        let of_class = below.strip_prefix(tree::CLASS).map(|rest| format!("{}{rest}", tree::DEVICES));
        let mut names = [Some(below.to_owned()), of_class].into_iter().flatten();
        names.find(|path| self.text(path).is_some()).ok_or_else(wrong)
    }

    fn other_place(&self, _path: &str, _device: u8, _name: &str) -> Option<String> {
        None
    }
}

/// The path that a user named, below the root; none if it leads out of it.
fn below(name: &str) -> Option<&str> {
    let below = name.trim_start_matches('/');
    Path::new(below).components().all(|part| matches!(part, Component::Normal(_))).then_some(below)
}

/// Where a fixture's driver, which may be newer than those that are known, has a device's file of this name.
fn captured_place(machine: &Machine, folder: &str, name: &str) -> Option<String> {
    let names = fs::read_dir(machine.root().join(folder)).ok()?;
    let mut names: Vec<String> =
        names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    if names.iter().any(|there| there == name) {
        return Some(format!("{folder}/{name}"));
    }
    let inner = names.iter().filter(|inner| !inner.starts_with("neuron_core"));
    let mut folders = inner.map(|inner| format!("{folder}/{inner}"));
    folders.find_map(|inner| {
        let metadata = machine.root().join(&inner).symlink_metadata().ok()?;
        metadata.is_dir().then(|| captured_place(machine, &inner, name)).flatten()
    })
}
