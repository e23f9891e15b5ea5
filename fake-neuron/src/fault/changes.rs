//! Which paths of a machine a fault changes, and to what. Pure but for reading the `/proc` files and the path that a user
//! named. Called by [`super::carry_out`].

use std::fs;
use std::path::{Component, Path};

use super::{Fault, FaultError};
use crate::Machine;
use crate::machine::tree::{self, Entry, Kind};
use crate::machine::{disk, health, sysfs};

/// The LNC setting, below the root.
const LNC_SETTING: &str = "opt/aws/neuron/logical_nc_config";

/// One path, and what stands there while the fault is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Below the root.
    pub(crate) path: String,
    pub(crate) put: Put,
}

/// What stands at a changed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Nothing.
    Nothing,
    /// A file.
    File { content: String, mode: u32 },
    /// A FIFO that nobody writes to.
    Hung,
    /// The folder that was there with a FIFO in place of each of the driver's files.
    HungFolder,
}

/// What the fault changes; nothing where it is state only.
///
/// # Errors
/// The machine has no such device, core, link, counter or file.
pub(crate) fn changes(machine: &Machine, fault: &Fault) -> Result<Vec<Change>, FaultError> {
    match fault {
        Fault::DeviceLost { device } => {
            machine.check_device(*device)?;
            Ok(lost(*device))
        }
        Fault::Ecc { device, counter, count } => ecc(machine, *device, counter, *count),
        Fault::Unhealthy { device, components } => {
            machine.check_device(*device)?;
            machine.description().check_components(*device, components)?;
            // Inf1 shows it only by losing the device.
            let files = health::files(machine.description(), *device, components);
            Ok(files.map_or_else(|| lost(*device), |files| files.into_iter().filter_map(written).collect()))
        }
        Fault::HungRead { path, device } => match (path, device) {
            (Some(path), None) => Ok(vec![Change { path: file_of_user(machine, path)?, put: Put::Hung }]),
            (None, Some(device)) => {
                machine.check_device(*device)?;
                Ok(vec![Change { path: tree::sysfs_folder(*device), put: Put::HungFolder }])
            }
            _ => Err(FaultError::HungReadOfWhat),
        },
        Fault::Reset { device } => {
            machine.check_device(*device)?;
            Ok(attribute(machine, *device, "reset", "0\n"))
        }
        Fault::DriverUnloaded {} => Ok(unloaded(machine)),
        Fault::LinkDown { device, other } => link_down(machine, *device, *other),
        Fault::WrongLnc { lnc } => {
            let content = format!("NEURON_LOGICAL_NC_CONFIG={lnc}");
            Ok(vec![Change { path: LNC_SETTING.to_owned(), put: Put::File { content, mode: 0o644 } }])
        }
        Fault::CoreHeld { core, .. } => {
            let description = machine.description();
            let cores = u16::from(description.device_count()) * u16::from(description.cores_per_device);
            let instance_type = description.instance_type.clone();
            if *core < cores {
                return Ok(Vec::new());
            }
            Err(FaultError::NoCore { instance_type, core: *core, last: cores.saturating_sub(1) })
        }
        Fault::KernelError { device, .. } => {
            machine.check_device(*device)?;
            Ok(Vec::new())
        }
    }
}

fn lost(device: u8) -> Vec<Change> {
    let paths = [tree::device_node(device), tree::class_link(device), tree::sysfs_folder(device)];
    paths.into_iter().map(|path| Change { path, put: Put::Nothing }).collect()
}

fn ecc(machine: &Machine, device: u8, counter: &str, count: u32) -> Result<Vec<Change>, FaultError> {
    machine.check_device(device)?;
    if count > u32::from(u16::MAX) {
        return Err(FaultError::Count { counter: counter.to_owned(), count });
    }
    let description = machine.description();
    let names = sysfs::files(description).map(|file| file.name()).filter(|name| name.contains("_ecc_"));
    let names: Vec<&str> = names.collect();
    if names.contains(&counter) {
        return Ok(attribute(machine, device, counter, &format!("{count}\n")));
    }
    let known = match names.as_slice() {
        [] => "its driver shows none".to_owned(),
        names => format!("name one of {}", names.join(", ")),
    };
    let instance_type = description.instance_type.clone();
    Err(FaultError::NoCounter { instance_type, device, counter: counter.to_owned(), known })
}

fn link_down(machine: &Machine, device: u8, other: u8) -> Result<Vec<Change>, FaultError> {
    machine.check_device(device)?;
    machine.check_device(other)?;
    let description = machine.description();
    let links = |of: u8| description.driver_links.get(usize::from(of)).map(Vec::as_slice).unwrap_or_default();
    if !links(device).contains(&other) {
        let shown: Vec<String> = links(device).iter().map(u8::to_string).collect();
        return Err(FaultError::NoLink {
            instance_type: description.instance_type.clone(),
            device,
            other,
            links: if shown.is_empty() { "none".to_owned() } else { shown.join(", ") },
        });
    }
    let without = |of: u8, gone: u8| {
        let left: Vec<u8> = links(of).iter().copied().filter(|link| *link != gone).collect();
        attribute(machine, of, "connected_devices", &sysfs::connected_devices(&left))
    };
    Ok([without(device, other), without(other, device)].concat())
}

/// The module, the class, every device, and the driver's lines in `/proc`.
fn unloaded(machine: &Machine) -> Vec<Change> {
    let folders = ["sys/module/neuron", tree::CLASS, tree::DEVICES].map(str::to_owned);
    let nodes = machine.description().devices().map(tree::device_node);
    let gone = folders.into_iter().chain(nodes).map(|path| Change { path, put: Put::Nothing });
    let lines = ["proc/devices", "proc/modules"].into_iter().filter_map(|path| {
        let text = fs::read_to_string(machine.root().join(path)).ok()?;
        Some(Change { path: path.to_owned(), put: Put::File { content: without_driver(&text), mode: 0o444 } })
    });
    gone.chain(lines).collect()
}

/// The lines of `/proc/devices` or `/proc/modules` that are not about the driver.
fn without_driver(text: &str) -> String {
    let others = text.lines().filter(|line| !line.split_whitespace().any(|word| word == "neuron"));
    others.map(|line| format!("{line}\n")).collect()
}

/// A file of the device by its own name, wherever the driver has it.
fn attribute(machine: &Machine, device: u8, name: &str, content: &str) -> Vec<Change> {
    let description = machine.description();
    let file = sysfs::files(description).find(|file| file.name() == name);
    let entry = file.map(|file| sysfs::entry(description, device, file, content.to_owned()));
    let mut change = entry.and_then(written);
    if let Some(change) = &mut change
        && description.replayed
        && !disk::is_there(&machine.root().join(&change.path))
        && let Some(path) = captured_place(machine, &tree::sysfs_folder(device), name)
    {
        change.path = path;
    }
    change.into_iter().collect()
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

fn written(entry: Entry) -> Option<Change> {
    match entry.kind {
        Kind::File { content, mode } => Some(Change { path: entry.path, put: Put::File { content, mode } }),
        Kind::Link { .. } | Kind::Node { .. } => None,
    }
}

/// The file that a user named, as a path below the root without links, so that the class' name of a device is the same as its own.
fn file_of_user(machine: &Machine, name: &str) -> Result<String, FaultError> {
    let root = machine.root();
    let wrong = || FaultError::NoFile { root: root.to_owned(), path: name.to_owned() };
    let below = Path::new(name.trim_start_matches('/'));
    if !below.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(wrong());
    }
    let path = root.join(below).canonicalize().map_err(|_| wrong())?;
    let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    let below = path.strip_prefix(root).ok().filter(|_| is_file).and_then(Path::to_str);
    // Our own bookkeeping is no part of the machine.
    below.filter(|below| !below.starts_with('.')).map(str::to_owned).ok_or_else(wrong)
}
