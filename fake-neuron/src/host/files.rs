//! The files of a Neuron host, below a root. A file that is missing or may not be read is no error: the caller knows another
//! source. Called by [`crate::host`].

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use neuron_core::catalog::Generation;

use crate::machine::tree::sysfs_folder;

/// The root to read: `asked`, or else FAKE_NEURON_ROOT, which `fake-neuron exec` sets, NEURON_ROOT, where its link beside the tools leads,
/// or `/`.
pub fn find_root(asked: Option<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let given = asked
        .or_else(|| ["FAKE_NEURON_ROOT", "NEURON_ROOT"].into_iter().find_map(variable).map(PathBuf::from));
    let given = given.filter(|root| !root.as_os_str().is_empty());
    given.or_else(|| fs::read_link(ROOT_LINK).ok()).unwrap_or_else(|| PathBuf::from("/"))
}

/// A link that `fake-neuron exec` makes beside its tools, to the machine's root: a program need not hand its environment on to them.
pub(crate) const ROOT_LINK: &str = "/opt/aws/neuron/bin/.root";

/// A `/dev/neuronN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeviceNode {
    /// N.
    pub(super) id: u8,
    /// The minor number; N for a plain file, which stands for a node where none could be made.
    pub(super) host_id: u8,
}

pub(super) struct Files<'a> {
    root: &'a Path,
}

impl Files<'_> {
    pub(super) fn below(root: &Path) -> Files<'_> {
        Files { root }
    }

    /// In the order of their numbers.
    pub(super) fn device_nodes(&self) -> Vec<DeviceNode> {
        let entries = fs::read_dir(self.root.join("dev")).into_iter().flatten().flatten();
        let mut nodes: Vec<DeviceNode> = entries
            .filter_map(|entry| {
                let id = entry.file_name().to_str()?.strip_prefix("neuron")?.parse().ok()?;
                let metadata = fs::metadata(entry.path()).ok()?;
                let is_node = metadata.file_type().is_char_device();
                let minor = u8::try_from(rustix::fs::minor(metadata.rdev())).ok();
                Some(DeviceNode { id, host_id: minor.filter(|_| is_node).unwrap_or(id) })
            })
            .collect();
        nodes.sort_unstable();
        nodes
    }

    /// A line of `/sys/devices/virtual/dmi/id`; empty where it is missing.
    pub(super) fn dmi(&self, name: &str) -> String {
        let text = fs::read_to_string(self.root.join("sys/devices/virtual/dmi/id").join(name));
        text.unwrap_or_default().trim().to_owned()
    }

    /// The LNC that the node is set up for: the last `NEURON_LOGICAL_NC_CONFIG=N`, since bootstraps append
    /// (docs/reference/neuron.md §1.3).
    pub(super) fn lnc_setting(&self) -> Option<u8> {
        let text = fs::read_to_string(self.root.join("opt/aws/neuron/logical_nc_config")).ok()?;
        text.lines()
            .rev()
            .find_map(|line| line.trim().strip_prefix("NEURON_LOGICAL_NC_CONFIG=")?.trim().parse().ok())
    }

    pub(super) fn core_count(&self, device: u8) -> Option<u8> {
        self.attribute(device, "core_count")?.trim().parse().ok().filter(|cores| *cores > 0)
    }

    /// Ids as the driver joins them, by a comma and a space.
    pub(super) fn connected(&self, device: u8) -> Option<Vec<u8>> {
        let text = self.attribute(device, "connected_devices")?;
        Some(text.split(',').filter_map(|id| id.trim().parse().ok()).collect())
    }

    /// By `info/architecture/instance_type`, such as `Trn2`.
    pub(super) fn generation(&self, device: u8) -> Option<Generation> {
        let family = self.attribute(device, "instance_type")?;
        [Generation::Inf1, Generation::Inf2, Generation::Trn1, Generation::Trn2, Generation::Trn3]
            .into_iter()
            .find(|generation| generation.family() == family.trim())
    }

    /// A file of the device by its name alone, since only names are the same under every driver
    /// (docs/reference/neuron.md §4.9).
    pub(super) fn attribute(&self, device: u8, name: &str) -> Option<String> {
        fs::read_to_string(find(&self.root.join(sysfs_folder(device)), name)?).ok()
    }
}

/// The file of this name in `folder`, or else below it; links and the folders of single cores are not looked into.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let direct = folder.join(name);
    if direct.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        return Some(direct);
    }
    let mut inner: Vec<PathBuf> = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with("neuron_core"))
        .map(|entry| entry.path())
        .collect();
    inner.sort_unstable();
    inner.iter().find_map(|folder| find(folder, name))
}
