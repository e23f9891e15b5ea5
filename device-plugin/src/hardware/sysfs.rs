//! Reads the machine's files: DMI, the LNC file and what the driver shows (docs/reference/neuron.md §1.3, §4.3). Knows formats and
//! decides nothing; where a device's files are is in `device_files`. Called by `discovery` and `health`.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use neuron_core::ids::{DeviceSet, MAX_DEVICES};
use runtime::System;

/// The driver's folder of devices, below the root.
pub const DEVICES: &str = "sys/devices/virtual/neuron_device";
/// The folder of the driver's module, below the root, while it is loaded.
pub const MODULE: &str = "sys/module/neuron";
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
        /// Whether this plugin may not read it.
        forbidden: bool,
    },
    /// It was not read in time, as where the driver waits for hardware that is broken.
    #[error("{} hangs: it could not be read in time", path.display())]
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
            kind => FileError::Unreadable {
                path,
                why: why.to_string(),
                forbidden: kind == ErrorKind::PermissionDenied,
            },
        }
    }
}

/// The devices whose names (`neuron3`) are in a folder; none if there is no such folder. Other names are passed over.
///
/// # Errors
/// The folder is there and cannot be read.
pub async fn device_names(system: &System, folder: &Path) -> Result<DeviceSet, FileError> {
    let names = match system.names(folder).await {
        Ok(names) => names,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(DeviceSet::EMPTY),
        Err(why) => return Err(FileError::of(folder, &why)),
    };
    let id = |name: &std::ffi::OsString| name.to_str()?.strip_prefix("neuron")?.parse::<u8>().ok();
    Ok(names.iter().filter_map(id).filter(|id| usize::from(*id) < MAX_DEVICES).collect())
}

/// A device's physical cores, 1 to 128, by the text of its file at `path`.
///
/// # Errors
/// It says something else.
pub fn core_count(path: &Path, text: &str) -> Result<u8, FileError> {
    let cores = text.trim().parse().ok().filter(|cores| (1..=128).contains(cores));
    cores.ok_or_else(|| malformed(path, text, "a number of cores, 1 to 128"))
}

/// The devices that the driver says a device is linked to, by the text of its file at `path`.
///
/// # Errors
/// It says something else.
pub fn links(path: &Path, text: &str) -> Result<DeviceSet, FileError> {
    text.parse().map_err(|_| malformed(path, text, "device ids separated by commas"))
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
/// to the file, not always after a newline. Lines that set something else, and comments, are passed over.
///
/// # Errors
/// The file cannot be read, or its last setting is neither 1 nor 2.
pub async fn lnc(system: &System, root: &Path) -> Result<Option<u8>, FileError> {
    let path = root.join(LNC_CONFIG);
    let Some(text) = read_if_there(system, &path).await? else { return Ok(None) };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let setting = lines.filter_map(|line| line.rsplit_once(LNC_KEY)).next_back();
    match setting.map(|(_, value)| value.trim()) {
        Some("1") => Ok(Some(1)),
        Some("2") => Ok(Some(2)),
        None => Ok(None),
        Some(_) => Err(malformed(&path, &text, "NEURON_LOGICAL_NC_CONFIG=1 or =2")),
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
        Err(why) if is_missing(&why) => Ok(None),
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
        Err(why) if is_missing(&why) => Ok(false),
        Err(why) => Err(FileError::of(path, &why)),
    }
}

/// Whether nothing is at a path: another driver may have a file where this one's folder would be.
fn is_missing(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The error for a file whose text is `found` where `expected` belongs.
pub fn malformed(path: &Path, found: &str, expected: &'static str) -> FileError {
    FileError::Malformed { path: path.to_owned(), found: found.chars().take(64).collect(), expected }
}
