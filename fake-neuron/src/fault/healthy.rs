//! A machine on a disk as it is without the faults in force: what they took is looked up where it stands meanwhile. Called by
//! [`super::carry_out`] and [`super::on_disk`].

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::FaultError;
use super::files::{Files, below};
use super::on_disk::taken;
use super::standing::Changed;
use crate::Machine;
use crate::machine::description::Description;
use crate::machine::{disk, tree};

/// As Linux' own limit.
const MOST_LINKS: usize = 40;

/// A machine without what these changes made of it.
#[derive(Clone, Copy)]
pub(super) struct Healthy<'a> {
    machine: &'a Machine,
    changed: &'a [Changed],
}

impl<'a> Healthy<'a> {
    pub(super) fn of(machine: &'a Machine, changed: &'a [Changed]) -> Healthy<'a> {
        Healthy { machine, changed }
    }

    /// Whether anything is there, a dangling link included.
    pub(super) fn is_there(&self, path: &str) -> bool {
        disk::is_there(&self.place(Path::new(path)))
    }

    /// Where on the disk it stands now.
    fn place(&self, path: &Path) -> PathBuf {
        let root = self.machine.root();
        let covering = self.changed.iter().find(|changed| path.starts_with(&changed.path));
        covering.map_or_else(|| root.to_owned(), |changed| taken(root, &changed.path)).join(path)
    }

    /// The path below the root that a name leads to once links are followed; none if it leads out of the root.
    fn without_links(&self, name: &str) -> Option<PathBuf> {
        let mut left: Vec<OsString> = vec![name.into()];
        let (mut path, mut links) = (PathBuf::new(), 0);
        while let Some(next) = left.pop() {
            let mut parts: Vec<OsString> = Path::new(&next).iter().map(OsString::from).collect();
            if parts.len() > 1 {
                parts.reverse();
                left.extend(parts);
            } else if next == ".." {
                path.pop().then_some(())?;
            } else {
                path.push(&next);
                if let Ok(target) = fs::read_link(self.place(&path)) {
                    links += 1;
                    (links <= MOST_LINKS && target.is_relative()).then_some(())?;
                    path.pop();
                    left.push(target.into_os_string());
                }
            }
        }
        Some(path)
    }

    /// Where a fixture's driver, which may be newer than those that are known, has a device's file of this name.
    fn captured_place(&self, folder: &str, name: &str) -> Option<String> {
        let names = fs::read_dir(self.place(Path::new(folder))).ok()?;
        let mut names: Vec<String> =
            names.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        if names.iter().any(|there| there == name) {
            return Some(format!("{folder}/{name}"));
        }
        let inner = names.iter().filter(|inner| !inner.starts_with("neuron_core"));
        let mut folders = inner.map(|inner| format!("{folder}/{inner}"));
        folders.find_map(|inner| {
            let metadata = self.place(Path::new(&inner)).symlink_metadata().ok()?;
            metadata.is_dir().then(|| self.captured_place(&inner, name)).flatten()
        })
    }
}

impl Files for Healthy<'_> {
    fn description(&self) -> &Description {
        self.machine.description()
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.place(Path::new(path))).ok()
    }

    fn file_named(&self, name: &str) -> Result<String, FaultError> {
        let wrong = || FaultError::NoFile { root: self.machine.root().to_owned(), path: name.to_owned() };
        let path = below(name).and_then(|name| self.without_links(name)).ok_or_else(wrong)?;
        let is_file = self.place(&path).symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        // Our own bookkeeping is no part of the machine.
        let below = path.to_str().filter(|below| is_file && !below.starts_with('.'));
        below.map(str::to_owned).ok_or_else(wrong)
    }

    fn other_place(&self, path: &str, device: u8, name: &str) -> Option<String> {
        let is_elsewhere = self.description().replayed && !self.is_there(path);
        is_elsewhere.then(|| self.captured_place(&tree::sysfs_folder(device), name)).flatten()
    }
}
