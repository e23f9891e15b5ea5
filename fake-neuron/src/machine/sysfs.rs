//! One device's sysfs attributes to the byte, as its driver writes them (docs/reference/neuron.md §4.3, §4.9). Called by
//! [`crate::machine::tree`]. Which files a driver has is data (`core/data/driver-layouts.json`); what is in those that differ
//! from device to device is here. The driver's memory and status counters, thousands of files a machine, are left out: discovery
//! and health read none of them. Links are the catalog's `driver_links`: what the driver shows, not what is reachable.

use neuron_core::catalog::Generation;
use neuron_core::driver::{DriverFile, Drivers};

use crate::machine::description::Description;
use crate::machine::tree::{CLASS, DRIVER_MAJOR, Entry, Kind, sysfs_folder};

/// Where a driver whose paths are not known has its files, below a device's folder: a place of our own making, which no reader can
/// expect. The names stay.
const MOVED: &str = "moved";

/// Every attribute of one device; a counter starts at 0.
pub(crate) fn device(description: &Description, id: u8) -> Vec<Entry> {
    let folder = sysfs_folder(id);
    // The kernel's own.
    let mut entries = vec![
        Entry::fixed(format!("{folder}/dev"), format!("{DRIVER_MAJOR}:{id}\n")),
        Entry::writable(
            format!("{folder}/uevent"),
            format!("MAJOR={DRIVER_MAJOR}\nMINOR={id}\nDEVNAME=neuron{id}\n"),
        ),
    ];
    entries.extend(files(description).map(|file| {
        let content = file.at_rest.clone().unwrap_or_else(|| own_content(description, id, file.name()));
        entry(description, id, file, content)
    }));
    // One folder per *physical* core, whatever the LNC.
    let names = Names::of(description.generation);
    for core in 0..description.cores_per_device {
        let architecture = format!("{folder}/neuron_core{core}/info/architecture/arch_type");
        entries.push(Entry::writable(architecture, format!("{}\n", names.core_architecture)));
    }
    entries
}

/// The attributes of the class of devices.
pub(crate) fn class(description: &Description) -> impl Iterator<Item = Entry> {
    let files = Drivers::embedded().class_files(driver_version(description), description.generation);
    files.map(|file| Entry {
        path: format!("{CLASS}/{}", file.path),
        kind: Kind::File { content: file.at_rest.clone().unwrap_or_default(), mode: file.mode },
    })
}

/// The files that the description's driver shows of each device.
pub(crate) fn files(description: &Description) -> impl Iterator<Item = &'static DriverFile> {
    Drivers::embedded().device_files(driver_version(description), description.generation)
}

/// A file of a device, where the description's driver has it.
pub(crate) fn entry(description: &Description, id: u8, file: &DriverFile, content: String) -> Entry {
    let is_known = description.driver().is_none_or(|driver| driver.paths_known);
    let below = if is_known { file.path.clone() } else { format!("{MOVED}/{}", file.path) };
    let path = format!("{}/{below}", sysfs_folder(id));
    Entry { path, kind: Kind::File { content, mode: file.mode } }
}

/// What `/sys/module/neuron/version` says.
pub(crate) fn driver_version(description: &Description) -> &'static str {
    description.driver().map_or("", |driver| &driver.version)
}

/// What is in a file that differs between devices.
fn own_content(description: &Description, id: u8, name: &str) -> String {
    let names = Names::of(description.generation);
    match name {
        // No newline: clients parse it untrimmed.
        "core_count" => description.cores_per_device.to_string(),
        "connected_devices" => {
            let links = description.driver_links.get(usize::from(id)).map(Vec::as_slice).unwrap_or_default();
            connected_devices(links)
        }
        "serial_number" => format!("{}\n", description.serial_number(id)),
        "arch_type" => format!("{}\n", names.device_architecture),
        "instance_type" => format!("{}\n", description.generation.family()),
        "device_name" => format!("{}\n", names.device),
        _ => String::new(),
    }
}

/// Ids joined by a comma and a space, then a newline; without links the newline alone.
fn connected_devices(links: &[u8]) -> String {
    let ids: Vec<String> = links.iter().map(u8::to_string).collect();
    format!("{}\n", ids.join(", "))
}

/// What a generation calls itself in `info/architecture`.
struct Names {
    device: &'static str,
    device_architecture: &'static str,
    core_architecture: &'static str,
}

impl Names {
    /// Inf2 says NDv3 although its cores are NCv2: the driver's own table.
    fn of(generation: Generation) -> Names {
        let (device, device_architecture, core_architecture) = match generation {
            Generation::Inf1 => ("Inferentia", "NDv1", "NCv1"),
            Generation::Inf2 => ("Inferentia2", "NDv3", "NCv2"),
            Generation::Trn1 => ("Trainium1", "NDv2", "NCv2"),
            Generation::Trn2 => ("Trainium2", "NDv3", "NCv3"),
            Generation::Trn3 => ("Trainium3", "NDv4", "NCv4"),
        };
        Names { device, device_architecture, core_architecture }
    }
}
