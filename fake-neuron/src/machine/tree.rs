//! Every file, link and device node of a machine, as a list of entries. Pure: [`crate::machine::disk`] writes it,
//! [`crate::machine`] decides when.

use crate::machine::description::Description;
use crate::machine::sysfs;

/// Major number of the device nodes. The real driver's is dynamic (docs/reference/neuron.md §4.1); this one is from
/// Linux' range for local use, so that a fake node never reaches a driver of the host.
pub const DRIVER_MAJOR: u32 = 120;

/// Name of the file in the root that describes the fake machine, as JSON.
pub const MARKER: &str = ".fake-neuron.json";

/// The class of devices, below the root.
pub(crate) const CLASS: &str = "sys/class/neuron_device";

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
    let dmi = "sys/devices/virtual/dmi/id";
    let mut entries = vec![
        Entry::fixed(format!("{dmi}/product_name"), format!("{}\n", description.instance_type)),
        Entry::fixed(format!("{dmi}/board_asset_tag"), format!("{}\n", description.instance_id)),
        Entry::fixed(format!("{dmi}/sys_vendor"), "Amazon EC2\n"),
        Entry::link("sys/class/dmi/id", "../../devices/virtual/dmi/id"),
        Entry::fixed("sys/module/neuron/version", format!("{}\n", sysfs::driver_version(description))),
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
    entries.extend(description.devices().flat_map(|id| device(description, id)));
    entries
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
    format!("sys/devices/virtual/neuron_device/neuron{id}")
}

/// The class' link to [`sysfs_folder`].
pub(crate) fn class_link(id: u8) -> String {
    format!("{CLASS}/neuron{id}")
}

/// The node that programs open.
pub(crate) fn device_node(id: u8) -> String {
    format!("dev/neuron{id}")
}
