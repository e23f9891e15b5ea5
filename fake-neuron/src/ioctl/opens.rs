//! Which open file is which device, and which processes are attached to it. A descriptor's number says nothing (it can be a copy, or
//! inherited, or passed on), so each open is a file of its own, known by its inode. Called by [`super::driver`] and
//! [`super::supervisor`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::caller::Process;

/// The driver's table of processes for one device has this many places.
pub(crate) const MOST_PROCESSES: usize = 16;

/// Files that stand for devices have names that start so; the kernel adds its own in front.
pub(crate) const FILE_NAME: &str = "neuron";

/// A file, whoever has it open: its device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64, u64);

/// What was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The device's id on the host, 0 to 63.
    pub(crate) device: u8,
    /// Opened for writing only: attaches nobody, and answers a few commands only.
    pub(crate) free_access: bool,
}

/// Every open that is known, and who is attached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opens {
    files: BTreeMap<FileId, Opened>,
    /// In the order of their attachment, by device.
    attached: BTreeMap<u8, Vec<Process>>,
    /// The free-access files that a process had when it last reserved cores: closing one gives the cores back.
    reserving: BTreeMap<Process, BTreeSet<FileId>>,
    /// Number of files at which those that nobody has any more are next looked for.
    sweep_at: usize,
}

impl Opens {
    /// Attaches the process to the device; false where the table is full.
    pub(crate) fn attach(&mut self, device: u8, process: Process) -> bool {
        let table = self.attached.entry(device).or_default();
        if !table.contains(&process) {
            if table.len() >= MOST_PROCESSES {
                return false;
            }
            table.push(process);
        }
        true
    }

    /// Whether the process is attached to the device.
    pub(crate) fn is_attached(&self, device: u8, process: Process) -> bool {
        self.attached_to(device).contains(&process)
    }

    /// The processes that are attached to the device.
    pub(crate) fn attached_to(&self, device: u8) -> &[Process] {
        self.attached.get(&device).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every process that is attached to a device or has reserved cores, and the devices it is attached to.
    pub(crate) fn processes(&self) -> BTreeMap<Process, Vec<u8>> {
        let mut found: BTreeMap<Process, Vec<u8>> =
            self.reserving.keys().map(|process| (*process, Vec::new())).collect();
        for (device, table) in &self.attached {
            for process in table {
                found.entry(*process).or_default().push(*device);
            }
        }
        found
    }

    /// Whether the process is attached to a device or has reserved cores.
    pub(crate) fn knows(&self, process: Process) -> bool {
        self.reserving.contains_key(&process) || self.attached.values().any(|table| table.contains(&process))
    }

    /// Detaches the process from everything.
    pub(crate) fn let_go(&mut self, process: Process) {
        self.attached.values_mut().for_each(|table| table.retain(|other| *other != process));
        self.reserving.remove(&process);
    }

    /// Whether nobody is attached and nobody has reserved cores.
    pub(crate) fn is_idle(&self) -> bool {
        self.attached.values().all(Vec::is_empty) && self.reserving.is_empty()
    }

    /// Remembers an open.
    pub(crate) fn insert(&mut self, file: FileId, opened: Opened) {
        self.files.insert(file, opened);
    }

    /// Forgets an open that came to nothing.
    pub(crate) fn remove(&mut self, file: FileId) {
        self.files.remove(&file);
    }

    /// What a descriptor of a thread stands for; none where it is no device of ours.
    pub(crate) fn of_descriptor(&self, thread: u32, descriptor: i32) -> Option<Opened> {
        let file = device_file(Path::new(&format!("/proc/{thread}/fd/{descriptor}")))?;
        self.files.get(&file).copied()
    }

    /// Notes that the process holds cores through the free-access files it has open now.
    pub(crate) fn note_reservation(&mut self, process: Process) {
        let files = self.free_files(&held_by(process));
        self.reserving.insert(process, files);
    }

    /// Notes that the process holds no cores any more.
    pub(crate) fn forget_reservation(&mut self, process: Process) {
        self.reserving.remove(&process);
    }

    /// Looks at every known process: detaches it from what it has closed. The processes that gave their cores back by that.
    pub(crate) fn refresh(&mut self) -> Vec<Process> {
        let mut released = Vec::new();
        for process in self.processes().into_keys() {
            let is_alive = process.is_alive();
            let held = if is_alive { held_by(process) } else { BTreeSet::new() };
            for (device, table) in &mut self.attached {
                let is_open = held.iter().filter_map(|file| self.files.get(file));
                let mut is_open = is_open.filter(|opened| opened.device == *device && !opened.free_access);
                if is_open.next().is_none() {
                    table.retain(|other| *other != process);
                }
            }
            let has_ended = |files: &BTreeSet<FileId>| !is_alive || !files.is_subset(&held);
            if self.reserving.get(&process).is_some_and(has_ended) {
                self.reserving.remove(&process);
                released.push(process);
            }
        }
        if self.files.len() >= self.sweep_at.max(1024) {
            self.sweep();
        }
        released
    }

    /// Forgets the files that no process has any more.
    fn sweep(&mut self) {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let held: BTreeSet<FileId> = ids.flat_map(files_of).collect();
        self.files.retain(|file, _| held.contains(file));
        self.sweep_at = 2 * self.files.len();
    }

    fn free_files(&self, held: &BTreeSet<FileId>) -> BTreeSet<FileId> {
        let is_free = |file: &&FileId| self.files.get(file).is_some_and(|opened| opened.free_access);
        held.iter().filter(is_free).copied().collect()
    }
}

/// The id of an open file of our own.
pub(crate) fn id_of(file: &fs::File) -> std::io::Result<FileId> {
    let metadata = file.metadata()?;
    Ok(FileId(metadata.dev(), metadata.ino()))
}

fn held_by(process: Process) -> BTreeSet<FileId> {
    files_of(process.id)
}

fn files_of(process: u32) -> BTreeSet<FileId> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| device_file(&entry.path())).collect()
}

/// The file that a link of `/proc/ID/fd` leads to, where it can stand for a device: by its name, so that a number used again for
/// another file means nothing.
fn device_file(link: &Path) -> Option<FileId> {
    let name = fs::read_link(link).ok()?;
    name.to_str()?.strip_prefix("/memfd:")?.strip_prefix(FILE_NAME)?;
    let metadata = fs::metadata(link).ok()?;
    Some(FileId(metadata.dev(), metadata.ino()))
}
