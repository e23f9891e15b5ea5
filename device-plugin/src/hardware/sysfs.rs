//! Reads the machine's files: DMI, the LNC file and each device's sysfs folder (docs/reference/neuron.md §1.3, §4.3). Knows formats
//! and decides nothing. Called by `discovery` and `health`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use neuron_core::ids::{DeviceSet, MAX_DEVICES};

/// The driver's folder of devices, below the root.
pub const DEVICES: &str = "sys/devices/virtual/neuron_device";
/// The DMI file with the instance type, below the root.
pub const PRODUCT_NAME: &str = "sys/devices/virtual/dmi/id/product_name";
/// The operator's LNC setting, below the root.
pub const LNC_CONFIG: &str = "opt/aws/neuron/logical_nc_config";
const LNC_KEY: &str = "NEURON_LOGICAL_NC_CONFIG=";

/// A file that is missing or malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// Path of the file, below the plugin's `--root`.
        path: PathBuf,
        /// What the operating system said.
        why: String,
    },
    /// It does not hold what belongs there.
    #[error("{} holds {found:?}, expected {expected}", path.display())]
    Malformed {
        /// Path of the file, below the plugin's `--root`.
        path: PathBuf,
        /// What it holds, at most 64 characters of it.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
}

/// What the driver says about one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysfsDevice {
    /// Physical cores, 1 to 128.
    pub cores: u8,
    /// Devices that the driver says it is linked to.
    pub links: DeviceSet,
}

/// The folder of device `id` in sysfs.
pub fn device_folder(root: &Path, id: u8) -> PathBuf {
    root.join(DEVICES).join(format!("neuron{id}"))
}

/// The node of device `id` in `/dev`.
pub fn device_node(root: &Path, id: u8) -> PathBuf {
    root.join("dev").join(format!("neuron{id}"))
}

/// The devices that have a folder in sysfs. Other names there are passed over.
///
/// # Errors
/// The driver's folder cannot be read.
pub fn device_ids(root: &Path) -> Result<DeviceSet, FileError> {
    let path = root.join(DEVICES);
    let unreadable = |why: std::io::Error| FileError::Unreadable { path: path.clone(), why: why.to_string() };
    let mut ids = DeviceSet::EMPTY;
    for entry in std::fs::read_dir(&path).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix("neuron")?.parse::<u8>().ok());
        if let Some(id) = id.filter(|id| usize::from(*id) < MAX_DEVICES) {
            ids = ids.union(DeviceSet::single(id));
        }
    }
    Ok(ids)
}

/// Reads one device's folder.
///
/// # Errors
/// `core_count` or `connected_devices` is missing or malformed.
pub fn device(root: &Path, id: u8) -> Result<SysfsDevice, FileError> {
    let folder = device_folder(root, id);
    let path = folder.join("core_count");
    let text = read(&path)?;
    let cores = text.trim().parse().ok().filter(|cores| (1..=128).contains(cores));
    let cores = cores.ok_or_else(|| malformed(path, &text, "a number of cores, 1 to 128"))?;
    let path = folder.join("connected_devices");
    let text = read(&path)?;
    let links = text.parse().map_err(|_| malformed(path, &text, "device ids separated by commas"))?;
    Ok(SysfsDevice { cores, links })
}

/// The instance type that DMI shows.
///
/// # Errors
/// The file is missing or holds no instance type.
pub fn product_name(root: &Path) -> Result<String, FileError> {
    let path = root.join(PRODUCT_NAME);
    let text = read(&path)?;
    let name = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    if name.is_empty() || !name.chars().all(plain) || !name.contains('.') {
        return Err(malformed(path, &text, "an instance type such as trn1.32xlarge"));
    }
    Ok(name.to_owned())
}

/// The operator's LNC setting, 1 or 2; none without one. The last setting counts, since the documented bootstrap appends
/// to the file, not always after a newline.
///
/// # Errors
/// The file cannot be read, or its last setting is neither 1 nor 2.
pub fn lnc(root: &Path) -> Result<Option<u8>, FileError> {
    let path = root.join(LNC_CONFIG);
    let Some(text) = read_if_there(&path)? else { return Ok(None) };
    match text.rsplit_once(LNC_KEY).map(|(_, value)| value.trim()) {
        Some("1") => Ok(Some(1)),
        Some("2") => Ok(Some(2)),
        None if text.trim().is_empty() => Ok(None),
        _ => Err(malformed(path, &text, "NEURON_LOGICAL_NC_CONFIG=1 or =2")),
    }
}

/// The text of a file.
///
/// # Errors
/// The file cannot be read.
pub fn read(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path)
        .map_err(|why| FileError::Unreadable { path: path.to_owned(), why: why.to_string() })
}

/// The text of a file; none if there is no such file.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read_if_there(path: &Path) -> Result<Option<String>, FileError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(FileError::Unreadable { path: path.to_owned(), why: why.to_string() }),
    }
}

/// The error for a file whose text is `found` where `expected` belongs.
pub fn malformed(path: PathBuf, found: &str, expected: &'static str) -> FileError {
    FileError::Malformed { path, found: found.chars().take(64).collect(), expected }
}
