//! What every test of machines needs: a root of its own and short ways to make one and to read it.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use fake_neuron::{Machine, MachineError, MachineSpec};
use neuron_core::catalog::Catalog;
use tempfile::TempDir;

pub(crate) fn spec(instance_type: &str) -> MachineSpec {
    MachineSpec { instance_type: instance_type.to_owned(), lnc: None, instance_id: None, driver: None }
}

/// An empty folder that goes when the test ends, and the root to use in it, which does not exist yet.
pub(crate) fn place() -> (TempDir, PathBuf) {
    // In memory where possible: a big machine is a thousand small files, which some disks take seconds for.
    let folder = testkit_support::short_folder().unwrap();
    let root = folder.path().canonicalize().unwrap().join("node");
    (folder, root)
}

pub(crate) fn up(spec: &MachineSpec, root: &Path) -> Result<Machine, MachineError> {
    Machine::up(spec, root, Catalog::embedded())
}

pub(crate) fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn sysfs(root: &Path, device: u8, path: &str) -> String {
    read(root, &format!("sys/devices/virtual/neuron_device/neuron{device}/{path}"))
}

/// Every file, link and node below `root` with what is in it; folders only where they are empty.
pub(crate) fn listing(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect(root, root, &mut found);
    found
}

fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_symlink() {
            found.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
        } else if kind.is_dir() {
            if fs::read_dir(&path).unwrap().next().is_none() {
                found.insert(name.clone(), "an empty folder".to_owned());
            }
            collect(root, &path, found);
        } else if name.starts_with("dev/neuron") {
            assert!(kind.is_char_device() || fs::read(&path).unwrap().is_empty(), "{name}");
            found.insert(name, "a device node, or an empty file where none may be made".to_owned());
        } else {
            found.insert(name, format!("{:?}", fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Every file, link, FIFO and node below `root` with its permissions and what is in it, but for the machine's run-time state.
pub(crate) fn modes(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect_modes(root, root, &mut found);
    found
}

/// What differs between two folders as [`modes`] reads them.
pub(crate) fn differences(
    found: &BTreeMap<String, String>,
    expected: &BTreeMap<String, String>,
) -> Vec<String> {
    let paths: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
    let differ = paths.into_iter().filter(|path| found.get(*path) != expected.get(*path));
    differ.map(|path| format!("{path}: {:?}, not {:?}", found.get(path), expected.get(path))).collect()
}

fn collect_modes(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let metadata = path.symlink_metadata().unwrap();
        let (kind, mode) = (metadata.file_type(), metadata.mode() & 0o7777);
        if name == ".fake-neuron" {
            continue;
        }
        let what = if kind.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else if kind.is_dir() {
            collect_modes(root, &path, found);
            if fs::read_dir(&path).unwrap().next().is_some() {
                continue;
            }
            "an empty folder".to_owned()
        } else if kind.is_fifo() {
            "a FIFO".to_owned()
        } else if name.starts_with("dev/neuron") {
            format!("{mode:04o} a device node, or an empty file where none may be made")
        } else {
            let text = fs::read(&path).unwrap_or_else(|error| error.to_string().into_bytes());
            format!("{mode:04o} {:?}", String::from_utf8(text).unwrap())
        };
        found.insert(name, what);
    }
}
