//! Every file, link and device node of a machine, as a list of entries. Pure: [`crate::machine::disk`] writes it,
//! [`crate::machine`] decides when.

use crate::machine::description::Description;
use crate::machine::sysfs;

/// Major number of the device nodes. The real driver's is dynamic (docs/reference/neuron.md §4.1); this one is from
/// Linux' range for local use, so that a fake node never reaches a driver of the host.
pub const DRIVER_MAJOR: u32 = 120;

/// Name of the file in the root that describes the fake machine, as JSON.
pub const MARKER: &str = ".fake-neuron.json";

/// The fake kernel log, below the root.
pub const KERNEL_LOG: &str = "dev/kmsg";

/// The class of devices, below the root.
pub(crate) const CLASS: &str = "sys/class/neuron_device";

/// What the firmware says of the machine, below the root.
const DMI: &str = "sys/devices/virtual/dmi/id";

/// The folder of the kernel module, below the root.
pub(crate) const MODULE: &str = "sys/module/neuron";

/// The folder of the devices' folders, below the root.
pub(crate) const DEVICES: &str = "sys/devices/virtual/neuron_device";

/// One thing to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Below the root, without a leading slash.
    pub path: String,
    /// What it is.
    pub kind: Kind,
}

/// What is made at an entry's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File {
        /// Exactly these bytes.
        content: String,
        /// Its permissions, such as 0o444.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Relative to its folder.
        target: String,
    },
    /// A character node with [`DRIVER_MAJOR`], or a plain empty file where such nodes may not be made.
    Node {
        /// The device's id.
        minor: u8,
    },
}

impl Entry {
    /// A file that everybody may read and nobody may write.
    pub(crate) fn fixed(path: impl Into<String>, content: impl Into<String>) -> Entry {
        Entry { path: path.into(), kind: Kind::File { content: content.into(), mode: 0o444 } }
    }

    /// A file that its owner may write.
    pub(crate) fn writable(path: impl Into<String>, content: impl Into<String>) -> Entry {
        Entry { path: path.into(), kind: Kind::File { content: content.into(), mode: 0o644 } }
    }

    fn link(path: impl Into<String>, target: impl Into<String>) -> Entry {
        Entry { path: path.into(), kind: Kind::Link { target: target.into() } }
    }
}

/// The entries of the whole machine.
pub(crate) fn machine(description: &Description) -> Vec<Entry> {
    let mut entries = vec![
        Entry::fixed(format!("{DMI}/product_name"), format!("{}\n", description.instance_type)),
        instance_id(description),
        Entry::fixed(format!("{DMI}/sys_vendor"), "Amazon EC2\n"),
        Entry::link("sys/class/dmi/id", "../../devices/virtual/dmi/id"),
        Entry::fixed(format!("{MODULE}/version"), format!("{}\n", sysfs::driver_version(description))),
        Entry::fixed(
            "proc/devices",
            format!("Character devices:\n{DRIVER_MAJOR} neuron\n\nBlock devices:\n"),
        ),
    ];
    if let Some(lnc) = description.lnc {
        // The documented node bootstrap writes no newline (docs/reference/neuron.md §1.3).
        let setting = format!("NEURON_LOGICAL_NC_CONFIG={lnc}");
        entries.push(Entry::writable("opt/aws/neuron/logical_nc_config", setting));
    }
    entries.extend(sysfs::class(description));
    if description.counters {
        entries.extend(sysfs::rest(description));
        // The size is that of the module's coresize; the address is what everybody but root sees.
        let line = "neuron 458752 0 - Live 0x0000000000000000 (OE)\n";
        entries.push(Entry::fixed("proc/modules", line));
        // A fake kernel log for what faults report; the host's own is not ours to write to.
        entries.push(Entry::writable(KERNEL_LOG, ""));
    }
    entries.extend(description.devices().flat_map(|id| device(description, id)));
    entries
}

/// The entries that differ between two machines of a kind.
pub(crate) fn identity(description: &Description) -> Vec<Entry> {
    let serials = description.devices().filter_map(|id| sysfs::serial_number(description, id));
    [instance_id(description)].into_iter().chain(serials).collect()
}

fn instance_id(description: &Description) -> Entry {
    Entry::fixed(format!("{DMI}/board_asset_tag"), format!("{}\n", description.instance_id))
}

/// The entries of one device, which vanish with [`crate::Machine::lose`].
pub(crate) fn device(description: &Description, id: u8) -> Vec<Entry> {
    let mut entries = sysfs::device(description, id);
    entries.push(Entry::link(format!("{}/subsystem", sysfs_folder(id)), "../../../../class/neuron_device"));
    entries.push(Entry::link(class_link(id), format!("../../devices/virtual/neuron_device/neuron{id}")));
    entries.push(Entry { path: device_node(id), kind: Kind::Node { minor: id } });
    entries
}

/// The folder of a device's attributes.
pub(crate) fn sysfs_folder(id: u8) -> String {
    format!("{DEVICES}/neuron{id}")
}

/// The class' link to [`sysfs_folder`].
pub(crate) fn class_link(id: u8) -> String {
    format!("{CLASS}/neuron{id}")
}

/// The node that programs open.
pub(crate) fn device_node(id: u8) -> String {
    format!("dev/neuron{id}")
}
