//! Which paths of a machine one fault changes, and to what. Pure but for what [`super::files`] looks up. Called by
//! [`super::together`].

use serde::{Deserialize, Serialize};

use super::files::Files;
use super::{Fault, FaultError};
use crate::machine::description::Description;
use crate::machine::tree::{self, Entry, Kind};
use crate::machine::{health, sysfs};

/// The LNC setting, below the root.
const LNC_SETTING: &str = "opt/aws/neuron/logical_nc_config";

/// One path, and what stands there while the fault is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Below the root.
    pub path: String,
    /// What stands there.
    pub put: Put,
}

/// What stands at a changed path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Put {
    /// Nothing.
    Nothing,
    /// A file.
    File {
        /// Exactly these bytes.
        content: String,
        /// Its permissions, such as 0o444.
        mode: u32,
    },
    /// A FIFO that nobody writes to.
    Hung,
    /// The folder that was there with a FIFO in place of each of the driver's files.
    HungFolder,
}

/// What the fault changes where the `earlier` ones are in force already; nothing where it is state only.
///
/// # Errors
/// The machine has no such device, core, link, counter or file.
pub(super) fn changes<'f>(
    machine: &dyn Files,
    fault: &'f Fault,
    earlier: impl Iterator<Item = &'f Fault>,
) -> Result<Vec<Change>, FaultError> {
    let description = machine.description();
    match fault {
        Fault::DeviceLost { device } => {
            description.check_device(*device)?;
            Ok(lost(*device))
        }
        Fault::Ecc { device, counter, count } => ecc(machine, *device, counter, *count),
        Fault::Unhealthy { device, components } => {
            description.check_device(*device)?;
            description.check_components(*device, components)?;
            // Inf1 shows it only by losing the device.
            let broken = broken(earlier.chain([fault]), *device);
            let files = health::broken_files(description, *device, &broken);
            Ok(files.map_or_else(|| lost(*device), |files| files.into_iter().filter_map(written).collect()))
        }
        Fault::HealthStatus { device, file, value } => {
            let names = ["hw_error_event", "healthcheck_heartbeat"];
            number(machine, *device, file, *value, |name| names.contains(&name))
        }
        Fault::HungRead { path, device } => match (path, device) {
            (Some(path), None) => Ok(vec![Change { path: machine.file_named(path)?, put: Put::Hung }]),
            (None, Some(device)) => {
                description.check_device(*device)?;
                Ok(vec![Change { path: tree::sysfs_folder(*device), put: Put::HungFolder }])
            }
            _ => Err(FaultError::HungReadOfWhat),
        },
        Fault::Reset { device } => {
            description.check_device(*device)?;
            Ok(attribute(machine, *device, "reset", "0\n"))
        }
        Fault::DriverUnloaded {} => Ok(unloaded(machine)),
        Fault::LinkDown { device, other } => link_down(machine, fault, (*device, *other), earlier),
        Fault::WrongLnc { lnc } => {
            let content = format!("NEURON_LOGICAL_NC_CONFIG={lnc}");
            Ok(vec![Change { path: LNC_SETTING.to_owned(), put: Put::File { content, mode: 0o644 } }])
        }
        Fault::CoreHeld { core, .. } => {
            let cores = u16::from(description.device_count()) * u16::from(description.cores_per_device);
            let instance_type = description.instance_type.clone();
            if *core < cores {
                return Ok(Vec::new());
            }
            Err(FaultError::NoCore { instance_type, core: *core, last: cores.saturating_sub(1) })
        }
        Fault::KernelError { device, .. } => {
            description.check_device(*device)?;
            Ok(Vec::new())
        }
    }
}

fn lost(device: u8) -> Vec<Change> {
    let paths = [tree::device_node(device), tree::class_link(device), tree::sysfs_folder(device)];
    paths.into_iter().map(|path| Change { path, put: Put::Nothing }).collect()
}

fn ecc(machine: &dyn Files, device: u8, counter: &str, count: u32) -> Result<Vec<Change>, FaultError> {
    machine.description().check_device(device)?;
    if count > u32::from(u16::MAX) {
        return Err(FaultError::Count { counter: counter.to_owned(), count });
    }
    number(machine, device, counter, count, |name| name.contains("_ecc_"))
}

/// A file of the device that holds a number, one of those that the driver has and that may be `named`.
fn number(
    machine: &dyn Files,
    device: u8,
    file: &str,
    value: u32,
    named: impl Fn(&str) -> bool,
) -> Result<Vec<Change>, FaultError> {
    let description = machine.description();
    description.check_device(device)?;
    let names = sysfs::files(description).map(|file| file.name()).filter(|name| named(name));
    let names: Vec<&str> = names.collect();
    if names.contains(&file) {
        return Ok(attribute(machine, device, file, &format!("{value}\n")));
    }
    let known = match names.as_slice() {
        [] => "its driver shows none".to_owned(),
        names => format!("name one of {}", names.join(", ")),
    };
    let instance_type = description.instance_type.clone();
    Err(FaultError::NoCounter { instance_type, device, counter: file.to_owned(), known })
}

/// The components of a device that these faults break.
fn broken<'f>(faults: impl Iterator<Item = &'f Fault>, device: u8) -> Vec<String> {
    let named = faults.filter_map(|fault| match fault {
        Fault::Unhealthy { device: of, components } if *of == device => Some(components),
        _ => None,
    });
    named.flatten().cloned().collect()
}

fn link_down<'f>(
    machine: &dyn Files,
    fault: &'f Fault,
    (device, other): (u8, u8),
    earlier: impl Iterator<Item = &'f Fault>,
) -> Result<Vec<Change>, FaultError> {
    let description = machine.description();
    description.check_device(device)?;
    description.check_device(other)?;
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
    let faults: Vec<&Fault> = earlier.chain([fault]).collect();
    let without = |of: u8| {
        let is_up = |link: &u8| !faults.iter().any(|fault| fault.breaks_link(of, *link));
        let left: Vec<u8> = links(of).iter().copied().filter(is_up).collect();
        attribute(machine, of, "connected_devices", &sysfs::connected_devices(&left))
    };
    Ok([without(device), without(other)].concat())
}

/// The module, the class, every device, and the driver's lines in `/proc`.
fn unloaded(machine: &dyn Files) -> Vec<Change> {
    let folders = ["sys/module/neuron", tree::CLASS, tree::DEVICES].map(str::to_owned);
    let nodes = machine.description().devices().map(tree::device_node);
    let gone = folders.into_iter().chain(nodes).map(|path| Change { path, put: Put::Nothing });
    let lines = ["proc/devices", "proc/modules"].into_iter().filter_map(|path| {
        let text = machine.text(path)?;
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
fn attribute(machine: &dyn Files, device: u8, name: &str, content: &str) -> Vec<Change> {
    let description: &Description = machine.description();
    let file = sysfs::files(description).find(|file| file.name() == name);
    let entry = file.map(|file| sysfs::entry(description, device, file, content.to_owned()));
    let mut change = entry.and_then(written);
    if let Some(change) = &mut change
        && let Some(path) = machine.other_place(&change.path, device, name)
    {
        change.path = path;
    }
    change.into_iter().collect()
}

fn written(entry: Entry) -> Option<Change> {
    match entry.kind {
        Kind::File { content, mode } => Some(Change { path: entry.path, put: Put::File { content, mode } }),
        Kind::Link { .. } | Kind::Node { .. } => None,
    }
}
