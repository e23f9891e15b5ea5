//! A machine under its root folder: made, opened, changed and removed. Called by the command line, by [`crate::node`] and by
//! tests.

pub(crate) mod blueprint;
pub(crate) mod builder;
mod claim;
pub(crate) mod description;
pub(crate) mod disk;
pub(crate) mod health;
mod marker;
pub mod pci;
pub(crate) mod sysfs;
pub(crate) mod tree;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use neuron_core::catalog::Catalog;

use crate::MachineError;
use crate::machine::claim::Claim;
use crate::machine::description::{Description, MachineSpec};
use crate::machine::marker::Marker;
use crate::machine::tree::KERNEL_LOG;
use crate::machine::tree::{Entry, MARKER};
use crate::record::Fixture;

/// A machine under a root folder. Dropping it leaves the files; [`Machine::down`] removes them.
#[derive(Clone, Debug)]
pub struct Machine {
    root: PathBuf,
    description: Description,
}

impl Machine {
    /// Makes the machine under `root`, which is made with its parents if it is missing, and must else be empty or hold a
    /// fake machine. A machine of the same spec stays as it is, lost and unhealthy devices included; one of another spec is
    /// replaced. Nothing outside `root` is touched.
    ///
    /// # Errors
    /// An unknown type, an impossible LNC, instance id or driver, the host's own root, foreign files in `root`, another call that is at
    /// work in it, the file system's refusal. A new machine is then not left half made.
    pub fn up(spec: &MachineSpec, root: &Path, catalog: &Catalog) -> Result<Machine, MachineError> {
        Machine::raise(Description::of(spec, catalog)?, root, None)
    }

    /// As [`Machine::up`], of a description, with the files of a fixture where the description is a fixture's.
    pub(crate) fn raise(
        description: Description,
        root: &Path,
        fixture: Option<&Fixture>,
    ) -> Result<Machine, MachineError> {
        let (root, mut made) = prepare(root)?;
        let _claim = Claim::of(&root)?;
        let standing = Marker::read(&root)?;
        if let Some(marker) = standing {
            let is_same = marker.description == description && Fixture::kept(&root)?.as_ref() == fixture;
            if marker.complete && is_same {
                return Ok(Machine { root, description });
            }
            clear(&root, &marker)?;
            made = MadeFolders { root: marker.made_root, parents: marker.made_parents };
        } else if !disk::is_empty(&root)? {
            return Err(MachineError::NotEmpty { root });
        }
        let marker =
            Marker { complete: false, made_root: made.root, made_parents: made.parents, description };
        let built = build(&root, &marker, fixture);
        if built.is_err() {
            // The first error is the one to tell; an incomplete marker lets the next call finish the cleaning.
            let _ = clear(&root, &marker).and_then(|()| finish(&root, &marker));
        }
        built.map_err(|error| not_writable(error, &root))?;
        Ok(Machine { root, description: marker.description })
    }

    /// Opens the machine under `root`.
    ///
    /// # Errors
    /// No machine is there, or its marker is malformed.
    pub fn open(root: &Path) -> Result<Machine, MachineError> {
        let root = existing(root)?;
        match Marker::read(&root)? {
            Some(marker) if marker.complete => Ok(Machine { root, description: marker.description }),
            _ => Err(MachineError::NoMachine { root }),
        }
    }

    /// Removes exactly what [`Machine::up`] made. Foreign files stay, and so do the folders they are in.
    ///
    /// # Errors
    /// The machine is gone already, another call is at work in its root, or the file system refuses.
    pub fn down(self) -> Result<(), MachineError> {
        Machine::down_at(&self.root)
    }

    /// As [`Machine::down`], for the machine under `root`, even one that an interrupted `up` left incomplete.
    ///
    /// # Errors
    /// No machine is there, its marker is malformed, another call is at work in its root, or the file system refuses.
    pub fn down_at(root: &Path) -> Result<(), MachineError> {
        let root = existing(root)?;
        let _claim = Claim::of(&root)?;
        let marker = Marker::read(&root)?.ok_or_else(|| MachineError::NoMachine { root: root.clone() })?;
        clear(&root, &marker)?;
        finish(&root, &marker)
    }

    /// Loses the device, as after a fault on the bus: its `/dev` node, class link and sysfs folder vanish. A device that is
    /// already lost stays so.
    ///
    /// # Errors
    /// No such device, or the file system's refusal.
    pub fn lose(&self, device: u8) -> Result<(), MachineError> {
        self.check_device(device)?;
        disk::check_folders(&self.root, &tree::device(&self.description, device))?;
        for path in [tree::device_node(device), tree::class_link(device)] {
            disk::remove_file(&self.root.join(path))?;
        }
        disk::vanish(&self.root, &format!("lost{device}"), &tree::sysfs_folder(device))
    }

    /// Makes what is missing of the device as [`Machine::up`] made it. What is there stays as it is.
    ///
    /// # Errors
    /// No such device, or the file system's refusal.
    pub fn restore(&self, device: u8) -> Result<(), MachineError> {
        self.check_device(device)?;
        let mut missing = self.device_entries(device)?;
        disk::check_folders(&self.root, &missing)?;
        missing.retain(|entry| !disk::is_there(&self.root.join(&entry.path)));
        disk::place(&self.root, &format!("restored{device}"), &missing)
    }

    /// The machine's root folder, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The instance type by the name it was made with, which may be an alias.
    pub fn instance_type(&self) -> &str {
        &self.description.instance_type
    }

    /// The EC2 instance id that DMI shows.
    pub fn instance_id(&self) -> &str {
        &self.description.instance_id
    }

    /// Number of devices, 1 to 64, lost ones included.
    pub fn devices(&self) -> u8 {
        self.description.device_count()
    }

    /// The entries of one device.
    fn device_entries(&self, device: u8) -> Result<Vec<Entry>, MachineError> {
        if !self.description.replayed {
            return Ok(tree::device(&self.description, device));
        }
        let mut entries = entries(&self.root, &self.description)?;
        let sysfs = format!("{}/", tree::sysfs_folder(device));
        let own = [tree::device_node(device), tree::class_link(device)];
        entries.retain(|entry| own.contains(&entry.path) || entry.path.starts_with(&sysfs));
        Ok(entries)
    }

    /// Whether the tree is whole ([`crate::Builder::counters`]).
    pub fn has_counters(&self) -> bool {
        self.description.counters
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn check_device(&self, device: u8) -> Result<(), MachineError> {
        self.description.check_device(device)
    }
}

/// Which folders `up` made for a machine.
#[derive(Clone, Copy, Default)]
struct MadeFolders {
    /// The root itself.
    root: bool,
    /// So many above it, from the inside out.
    parents: usize,
}

/// The root as an absolute path, made with its parents if missing, and what was made.
fn prepare(root: &Path) -> Result<(PathBuf, MadeFolders), MachineError> {
    let mut made = MadeFolders::default();
    if !disk::is_there(root) {
        if root.components().any(|part| part == Component::ParentDir) {
            return Err(MachineError::ParentInPath { root: root.to_owned() });
        }
        let above = root.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
        made =
            MadeFolders { root: true, parents: above.take_while(|folder| !disk::is_there(folder)).count() };
        fs::create_dir_all(root).map_err(MachineError::io("make", root))?;
    }
    let found = existing(root)?;
    if !found.is_dir() {
        return Err(MachineError::RootNotAFolder { root: root.to_owned() });
    }
    Ok((found, made))
}

/// What was refused in the root itself, told of the root: the user knows no file there.
fn not_writable(error: MachineError, root: &Path) -> MachineError {
    match error {
        MachineError::Io { path, reason, .. }
            if path.parent() == Some(root)
                && matches!(
                    reason.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
        {
            MachineError::RootNotWritable { root: root.to_owned(), reason }
        }
        other => other,
    }
}

/// The root as an absolute path, where possible without links; never the host's own.
fn existing(root: &Path) -> Result<PathBuf, MachineError> {
    let place = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).ok();
    let Some(asked) = place(root) else {
        return match root.canonicalize() {
            Err(reason) if disk::is_there(root) => {
                Err(MachineError::Io { action: "open", path: root.to_owned(), reason })
            }
            _ => Err(MachineError::NoMachine { root: root.to_owned() }),
        };
    };
    if place(Path::new("/")) == Some(asked) {
        return Err(MachineError::HostRoot { root: root.to_owned() });
    }
    match root.canonicalize() {
        Ok(absolute) if place(&absolute) == Some(asked) => Ok(absolute),
        // A path through another process' root, /proc/PID/root/.., means another place here once it is without links.
        _ => std::path::absolute(root).map_err(MachineError::io("open", root)),
    }
}

/// Makes everything. The marker is written first and last, so that files never stand without it.
fn build(root: &Path, marker: &Marker, fixture: Option<&Fixture>) -> Result<(), MachineError> {
    disk::sweep(root)?;
    marker.write(root)?;
    if let Some(fixture) = fixture {
        fixture.keep(root)?;
    }
    disk::place(root, "machine", &entries(root, &marker.description)?)?;
    Marker { complete: true, ..marker.clone() }.write(root)
}

/// Removes the machine's files. The marker stays, as that of an incomplete machine.
fn clear(root: &Path, marker: &Marker) -> Result<(), MachineError> {
    Marker { complete: false, ..marker.clone() }.write(root)?;
    let entries = entries(root, &marker.description)?;
    let machine = Machine { root: root.to_owned(), description: marker.description.clone() };
    let has_kernel_log = machine.has_kernel_lines();
    // Readers that hang are let go. What cannot be put back is removed with the machine's state, below.
    let _ = machine.lift_all();
    disk::remove(root, &entries)?;
    if has_kernel_log {
        disk::check_parents(root, KERNEL_LOG)?;
        disk::remove_file(&root.join(KERNEL_LOG))?;
        disk::remove_empty_parents(root, KERNEL_LOG)?;
    }
    disk::remove_state(root)?;
    disk::sweep(root)
}

/// Every file, link and node that belongs to the machine: its driver's, or its fixture's.
fn entries(root: &Path, description: &Description) -> Result<Vec<Entry>, MachineError> {
    match Fixture::kept(root)? {
        Some(fixture) if description.replayed => Ok(fixture.entries()),
        _ => Ok(tree::machine(description)),
    }
}

/// Removes the marker, and the root and the folders above it if `up` made them and nothing foreign is in them.
fn finish(root: &Path, marker: &Marker) -> Result<(), MachineError> {
    let path = root.join(MARKER);
    fs::remove_file(&path).map_err(MachineError::io("remove", &path))?;
    if !marker.made_root || !disk::is_empty(root)? {
        return Ok(());
    }
    fs::remove_dir(root).map_err(MachineError::io("remove", root))?;
    for folder in root.ancestors().skip(1).take(marker.made_parents) {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(()),
            removed => removed.map_err(MachineError::io("remove", folder))?,
        }
    }
    Ok(())
}
