//! One device's sysfs attributes to the byte, as its driver writes them (docs/reference/neuron.md §4.3, §4.9). Called by
//! [`crate::machine::tree`]. Which files a driver has is data (`core/data/driver-layouts.json`); what is in those that differ
//! from device to device is here. The memory and status counters, thousands of files a machine that discovery and health do not
//! read, are there only where the machine is to have them (docs/adr/0043-whole-tree.md). Links are the catalog's `driver_links`:
//! what the driver shows, not what is reachable.

use neuron_core::catalog::Generation;
use neuron_core::driver::{DriverFile, Drivers};

use crate::machine::description::Description;
use crate::machine::tree::{CLASS, DRIVER_MAJOR, Entry, Kind, MODULE, sysfs_folder};

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
    if description.counters {
        entries.extend(counters(description, id));
    }
    entries
}

/// What neither discovery nor health reads of one device.
fn counters(description: &Description, id: u8) -> impl Iterator<Item = Entry> {
    let (folder, below) = (sysfs_folder(id), below(description, id));
    let counters = Drivers::embedded().counters();
    let kernels = shown(description, &counters.kernel_files).map(move |file| at(&folder, file));
    let of_device = below.clone();
    let devices = shown(description, &counters.device_files).map(move |file| at(&of_device, file));
    let cores = (0..description.cores_per_device).flat_map(move |core| {
        let folder = core_below(description, id, core);
        shown(description, &counters.core_files).map(move |file| at(&folder, file))
    });
    kernels.chain(devices).chain(cores)
}

/// What discovery reads nothing of beside the devices: the class' newer files and those of the module.
pub(crate) fn rest(description: &Description) -> impl Iterator<Item = Entry> {
    let counters = Drivers::embedded().counters();
    let class = shown(description, &counters.class_files).map(|file| at(CLASS, file));
    class.chain(shown(description, &counters.module_files).map(|file| at(MODULE, file)))
}

fn shown(
    description: &Description,
    files: &'static [DriverFile],
) -> impl Iterator<Item = &'static DriverFile> {
    let drivers = Drivers::embedded();
    let platform = drivers.platform(&description.instance_type);
    drivers.shown(files, driver_version(description), description.generation, platform)
}

/// A file at rest.
fn at(folder: &str, file: &DriverFile) -> Entry {
    let content = file.at_rest.clone().unwrap_or_default();
    Entry { path: format!("{folder}/{}", file.path), kind: Kind::File { content, mode: file.mode } }
}

/// The attributes of the class of devices.
pub(crate) fn class(description: &Description) -> impl Iterator<Item = Entry> {
    let drivers = Drivers::embedded();
    let platform = drivers.platform(&description.instance_type);
    let files = drivers.class_files(driver_version(description), description.generation, platform);
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
    let path = format!("{}/{}", below(description, id), file.path);
    Entry { path, kind: Kind::File { content, mode: file.mode } }
}

/// The file of a device's serial number, where the driver has it.
pub(crate) fn serial_number(description: &Description, id: u8) -> Option<Entry> {
    let file = files(description).find(|file| file.name() == "serial_number")?;
    Some(entry(description, id, file, own_content(description, id, file.name())))
}

/// The folder, below the root, that a driver's paths of a device start from.
pub(crate) fn below(description: &Description, id: u8) -> String {
    if paths_are_known(description) { sysfs_folder(id) } else { format!("{}/{MOVED}", sysfs_folder(id)) }
}

/// The folder, below the root, that a driver's paths of a core's counters start from. The cores' own folders stand where they always
/// did, as their `info` does.
pub(crate) fn core_below(description: &Description, id: u8, core: u8) -> String {
    let folder = format!("{}/neuron_core{core}", sysfs_folder(id));
    if paths_are_known(description) { folder } else { format!("{folder}/{MOVED}") }
}

fn paths_are_known(description: &Description) -> bool {
    description.driver().is_none_or(|driver| driver.paths_known)
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
pub(crate) fn connected_devices(links: &[u8]) -> String {
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
