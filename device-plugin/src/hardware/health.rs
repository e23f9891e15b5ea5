//! Whether a device may be given to new containers, and if not, why. One [`DeviceWatch`] for each device; asked by `discovery` once,
//! by `monitor` again and again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use neuron_core::catalog::Generation;
use neuron_core::driver::{DriverFile, Drivers, HealthFile};
use runtime::System;

use crate::config::{HealthOptions, UnknownHealth};
use crate::hardware::device_files::DeviceFiles;
use crate::hardware::driver::Driver;
use crate::hardware::sysfs::{self, FileError};

/// Longest look at one device. Each file has a limit of its own: a machine that is busy reads them slowly, one after the other, and its
/// devices are well.
pub const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// What one look at a device has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceHealth {
    /// Everything that its driver shows was read, and nothing is wrong.
    Healthy,
    /// Nothing is known to be wrong, but not everything could be read.
    Unknown(Unread),
    /// It may not be given out.
    Unhealthy(Fault),
}

/// Health that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its health is not known: {files} cannot be read below {}", folder.display())]
pub struct Unread {
    /// The files' names, separated by commas.
    files: String,
    /// The device's folder, below the plugin's `--root`.
    folder: PathBuf,
}

/// Why a device may not be given out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Its folder or its node is not there.
    #[error("{} is missing", path.display())]
    Missing {
        /// Path of what is missing, below the plugin's `--root`.
        path: PathBuf,
    },
    /// The driver was loaded and is not any more.
    #[error("the Neuron driver is gone: {} is missing", path.display())]
    DriverGone {
        /// The module's folder, below the plugin's `--root`.
        path: PathBuf,
    },
    /// One of its files cannot be read, hangs or makes no sense.
    #[error(transparent)]
    File(#[from] FileError),
    /// The driver says so.
    #[error("the driver reports unhealthy components: {0}")]
    Components(String),
    /// It has lost what was in its memory.
    #[error("{counter} is above 0: its memory has had errors that could not be corrected")]
    MemoryErrors {
        /// The counter's name in sysfs.
        counter: &'static str,
    },
    /// It is being reset.
    #[error("it is being reset")]
    Reset,
    /// The driver has given it up.
    #[error("the driver says that it is not valid (its file reset says {0})")]
    Invalid(String),
    /// What the driver says could not be read, and such devices are not to be served.
    #[error("{0} (--unknown-health=refuse)")]
    Unknown(Unread),
}

impl Fault {
    /// What metrics call it.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Missing { .. } => "missing",
            Fault::DriverGone { .. } => "driver_gone",
            Fault::File(_) => "file",
            Fault::Components(_) => "components",
            Fault::MemoryErrors { .. } => "memory_errors",
            Fault::Reset => "reset",
            Fault::Invalid(_) => "invalid",
            Fault::Unknown(_) => "unknown",
        }
    }
}

/// Looks at one device. A clone looks for itself.
#[derive(Clone, Debug)]
pub struct DeviceWatch {
    /// Whose files are read.
    pub system: System,
    /// Where the device's files are.
    pub files: DeviceFiles,
    /// The devices' generation; where it is not known, the newest, which shows most.
    pub generation: Generation,
    /// Whether what a topology is made of could not be read at the start: the device is unhealthy until it can be.
    pub unread: bool,
    /// Physical cores of a device of the instance type; none where the type is in no catalog.
    pub cores: Option<u8>,
    /// What its operator says of health.
    pub options: Arc<HealthOptions>,
}

impl DeviceWatch {
    /// The device's health by the files of now alone, so that it is healthy again as soon as they say so.
    pub async fn look(&mut self, driver: &Driver) -> DeviceHealth {
        let looked = match tokio::time::timeout(LOOK_TIMEOUT, self.look_at_files(driver)).await {
            Ok(looked) => looked,
            Err(_) => Err(FileError::Hangs { path: self.files.at.clone() }),
        };
        // Planted: health that could not be read in time counts as healthy.
        #[cfg(planted)]
        let looked = match looked {
            Err(FileError::Hangs { .. }) if runtime::is_planted("hanging-is-healthy") => {
                Ok(DeviceHealth::Healthy)
            }
            looked => looked,
        };
        let refused = self.options.unknown == UnknownHealth::Refuse;
        match looked.unwrap_or_else(|error| DeviceHealth::Unhealthy(error.into())) {
            DeviceHealth::Unknown(unread) if refused => DeviceHealth::Unhealthy(Fault::Unknown(unread)),
            health => health,
        }
    }

    async fn look_at_files(&mut self, driver: &Driver) -> Result<DeviceHealth, FileError> {
        let node = self.files.node.clone();
        if !self.files.is_there(&self.system, &node).await? {
            return Ok(DeviceHealth::Unhealthy(Fault::Missing { path: node }));
        }
        if let Driver::Gone { path } = driver {
            return Ok(DeviceHealth::Unhealthy(Fault::DriverGone { path: path.clone() }));
        }
        let mut unread = Vec::new();
        let drivers = Drivers::embedded();
        for file in drivers.device_files(driver.version(), self.generation) {
            let Some(kind) = file.health.filter(|_| !self.is_ignored(file.name())) else { continue };
            match self.files.read(&self.system, &file.path).await {
                Ok(Some(text)) => {
                    if let Some(fault) = self.fault(kind, file, &text)? {
                        return Ok(DeviceHealth::Unhealthy(fault));
                    }
                }
                Ok(None) | Err(FileError::Unreadable { forbidden: true, .. }) => unread.push(file.name()),
                Err(error) => return Err(error),
            }
        }
        if self.unread {
            let shape = self.files.shape(&self.system).await?;
            if let (Some(found), Some(expected)) = (shape.cores, self.cores)
                && found != expected
            {
                let expected = "as many cores as a device of the instance type has";
                return Err(sysfs::malformed(
                    &self.files.folder.join("core_count"),
                    &found.to_string(),
                    expected,
                ));
            }
        }
        if unread.is_empty() {
            return Ok(DeviceHealth::Healthy);
        }
        let folder = self.files.folder.clone();
        // A driver that shows other devices shows this one, if it is there.
        let others = folder.parent().map(PathBuf::from).unwrap_or_default();
        if !self.files.is_there(&self.system, &folder).await?
            && self.files.is_there(&self.system, &others).await?
        {
            return Ok(DeviceHealth::Unhealthy(Fault::Missing { path: folder }));
        }
        Ok(DeviceHealth::Unknown(Unread { files: unread.join(", "), folder }))
    }

    /// What one of the driver's files says is wrong.
    fn fault(
        &self,
        kind: HealthFile,
        file: &'static DriverFile,
        text: &str,
    ) -> Result<Option<Fault>, FileError> {
        let malformed = |expected| sysfs::malformed(&self.files.at, text, expected);
        Ok(match kind {
            HealthFile::Counter => {
                let count: u64 = text.trim().parse().map_err(|_| malformed("a number of errors"))?;
                (count > 0).then(|| Fault::MemoryErrors { counter: file.name() })
            }
            HealthFile::Components => {
                let broken = text.split(',').map(str::trim);
                let broken = broken.filter(|name| !name.is_empty() && !self.is_ignored(name));
                let broken = broken.collect::<Vec<_>>().join(",");
                // At most what an event can say.
                (!broken.is_empty()).then(|| Fault::Components(broken.chars().take(200).collect()))
            }
            HealthFile::Reset => match text.trim() {
                "1" => None,
                "0" => Some(Fault::Reset),
                "2" => Some(Fault::Invalid("2".to_owned())),
                _ => return Err(malformed("0, 1 or 2")),
            },
        })
    }

    fn is_ignored(&self, name: &str) -> bool {
        self.options.ignored.contains(name)
    }
}
