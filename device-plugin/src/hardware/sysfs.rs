//! Reads the machine's files: DMI, the LNC file and each device's sysfs folder (docs/reference/neuron.md §1.3, §4.3). Knows formats
//! and decides nothing. Called by `discovery` and `health`.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use neuron_core::ids::{DeviceSet, MAX_DEVICES};
use runtime::System;
use runtime::system::FILE_TIMEOUT;

/// The driver's folder of devices, below the root.
pub const DEVICES: &str = "sys/devices/virtual/neuron_device";
/// The DMI file with the instance type, below the root.
pub const PRODUCT_NAME: &str = "sys/devices/virtual/dmi/id/product_name";
/// The operator's LNC setting, below the root.
pub const LNC_CONFIG: &str = "opt/aws/neuron/logical_nc_config";
const LNC_KEY: &str = "NEURON_LOGICAL_NC_CONFIG=";

/// A file that is missing, malformed or not answered.
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
    /// It was not read in time, as where the driver waits for hardware that is broken.
    #[error("{} hangs: it could not be read within {FILE_TIMEOUT:?}", path.display())]
    Hangs {
        /// Path of the file, below the plugin's `--root`.
        path: PathBuf,
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

impl FileError {
    fn of(path: &Path, why: &io::Error) -> Self {
        let path = path.to_owned();
        match why.kind() {
            ErrorKind::TimedOut => FileError::Hangs { path },
            _ => FileError::Unreadable { path, why: why.to_string() },
        }
    }
}

/// What the driver says about one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysfsDevice {
    /// Physical cores, 1 to 128.
    pub cores: u8,
    /// Devices that the driver says it is linked to.
    pub links: DeviceSet,
}

/// The paths of one device's files, all below the plugin's `--root`. Made once, since health is read again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFiles {
    /// The device, 0 to 63.
    pub id: u8,
    /// The device's folder in sysfs.
    pub folder: PathBuf,
    /// The device's node in `/dev`.
    pub node: PathBuf,
    /// Holds the number of physical cores.
    pub core_count: PathBuf,
    /// Holds the devices that the driver says it is linked to.
    pub links: PathBuf,
    /// Holds what the driver found broken. Older generations and drivers have no such file.
    pub unhealthy_components: PathBuf,
    /// Counters of memory errors that could not be corrected, by name. Older drivers have none.
    pub memory_errors: [(&'static str, PathBuf); 2],
}

impl DeviceFiles {
    /// The files of device `id`.
    pub fn new(root: &Path, id: u8) -> Self {
        let folder = root.join(DEVICES).join(format!("neuron{id}"));
        let hardware = folder.join("stats/hardware");
        DeviceFiles {
            id,
            node: device_node(root, id),
            core_count: folder.join("core_count"),
            links: folder.join("connected_devices"),
            unhealthy_components: hardware.join("health_status/unhealthy_components"),
            memory_errors: ["mem_ecc_uncorrected", "sram_ecc_uncorrected"]
                .map(|counter| (counter, hardware.join(counter))),
            folder,
        }
    }
}

/// The node of device `id` in `/dev`.
pub fn device_node(root: &Path, id: u8) -> PathBuf {
    root.join("dev").join(format!("neuron{id}"))
}

/// The devices that have a folder in sysfs, none without a driver. Other names there are passed over.
///
/// # Errors
/// The driver's folder is there and cannot be read.
pub async fn device_ids(system: &System, root: &Path) -> Result<DeviceSet, FileError> {
    let path = root.join(DEVICES);
    let names = match system.names(&path).await {
        Ok(names) => names,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(DeviceSet::EMPTY),
        Err(why) => return Err(FileError::of(&path, &why)),
    };
    let id = |name: &std::ffi::OsString| name.to_str()?.strip_prefix("neuron")?.parse::<u8>().ok();
    Ok(names.iter().filter_map(id).filter(|id| usize::from(*id) < MAX_DEVICES).collect())
}

/// Reads one device's folder.
///
/// # Errors
/// `core_count` or `connected_devices` is missing, malformed or hangs.
pub async fn device(system: &System, files: &DeviceFiles) -> Result<SysfsDevice, FileError> {
    Ok(SysfsDevice { cores: core_count(system, files).await?, links: links(system, files).await? })
}

/// The device's physical cores, 1 to 128.
///
/// # Errors
/// `core_count` is missing, malformed or hangs.
pub async fn core_count(system: &System, files: &DeviceFiles) -> Result<u8, FileError> {
    let text = read(system, &files.core_count).await?;
    let cores = text.trim().parse().ok().filter(|cores| (1..=128).contains(cores));
    cores.ok_or_else(|| malformed(&files.core_count, &text, "a number of cores, 1 to 128"))
}

/// The devices that the driver says it is linked to.
///
/// # Errors
/// `connected_devices` is missing, malformed or hangs.
pub async fn links(system: &System, files: &DeviceFiles) -> Result<DeviceSet, FileError> {
    let text = read(system, &files.links).await?;
    text.parse().map_err(|_| malformed(&files.links, &text, "device ids separated by commas"))
}

/// The instance type that DMI shows.
///
/// # Errors
/// The file is missing, hangs or holds no instance type.
pub async fn product_name(system: &System, root: &Path) -> Result<String, FileError> {
    let path = root.join(PRODUCT_NAME);
    let text = read(system, &path).await?;
    let name = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    if name.is_empty() || !name.chars().all(plain) || !name.contains('.') {
        return Err(malformed(&path, &text, "an instance type such as trn1.32xlarge"));
    }
    Ok(name.to_owned())
}

/// The operator's LNC setting, 1 or 2; none without one. The last setting counts, since the documented bootstrap appends
/// to the file, not always after a newline.
///
/// # Errors
/// The file cannot be read, or its last setting is neither 1 nor 2.
pub async fn lnc(system: &System, root: &Path) -> Result<Option<u8>, FileError> {
    let path = root.join(LNC_CONFIG);
    let Some(text) = read_if_there(system, &path).await? else { return Ok(None) };
    match text.rsplit_once(LNC_KEY).map(|(_, value)| value.trim()) {
        Some("1") => Ok(Some(1)),
        Some("2") => Ok(Some(2)),
        None if text.trim().is_empty() => Ok(None),
        _ => Err(malformed(&path, &text, "NEURON_LOGICAL_NC_CONFIG=1 or =2")),
    }
}

/// The text of a file.
///
/// # Errors
/// The file cannot be read, or not in time.
pub async fn read(system: &System, path: &Path) -> Result<String, FileError> {
    system.read_to_string(path).await.map_err(|why| FileError::of(path, &why))
}

/// The text of a file; none if there is no such file.
///
/// # Errors
/// The file is there and cannot be read, or not in time.
pub async fn read_if_there(system: &System, path: &Path) -> Result<Option<String>, FileError> {
    match system.read_to_string(path).await {
        Ok(text) => Ok(Some(text)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(FileError::of(path, &why)),
    }
}

/// Whether something is at the path.
///
/// # Errors
/// It cannot be looked at, or not in time.
pub async fn is_there(system: &System, path: &Path) -> Result<bool, FileError> {
    match system.status(path).await {
        Ok(_) => Ok(true),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        Err(why) => Err(FileError::of(path, &why)),
    }
}

/// The error for a file whose text is `found` where `expected` belongs.
pub fn malformed(path: &Path, found: &str, expected: &'static str) -> FileError {
    FileError::Malformed { path: path.to_owned(), found: found.chars().take(64).collect(), expected }
}
