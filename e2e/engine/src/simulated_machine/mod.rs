//! A fake machine among the files of a simulated host: made, broken and mended as `fake-neuron` does it on a disk. Used by the
//! embedded cluster, and by who simulates the suite at length.

mod faults;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use fake_neuron::fault::FaultError;
use fake_neuron::{Blueprint, DRIVER_MAJOR, Entry, Health, Kind, MachineError};
use runtime::system::DeviceNumber;
use simulator::Host;
use simulator::files::FileSystem;

use self::faults::InForce;

/// The folder of `/dev`, `/sys`, `/proc` and `/opt`: on a host of its own the root.
pub const ROOT: &str = "/";

/// A machine on a host.
pub struct SimulatedMachine {
    host: Host,
    blueprint: Blueprint,
    in_force: Mutex<InForce>,
}

/// Why a machine cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedMachineError {
    /// It has no such device, or cannot show such a health.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// It cannot have such a fault, or not beside one that says the opposite.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A file of its own is where others have one.
    #[error("{path} cannot be written")]
    File {
        /// On the host.
        path: PathBuf,
        /// What the host's files say.
        source: io::Error,
    },
    /// A device that is lost shows nothing of its health.
    #[error("device {0} is lost; restore it first")]
    Lost(u8),
}

impl SimulatedMachine {
    /// A machine that is to be on the host. Nothing of it is there yet.
    pub fn new(host: &Host, blueprint: Blueprint) -> Self {
        Self { host: host.clone(), blueprint, in_force: Mutex::default() }
    }

    /// What it is to be.
    pub fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// Writes every file of it, in place of what is there.
    ///
    /// # Errors
    /// A folder is where a file of it must be.
    pub fn make(&self) -> Result<(), SimulatedMachineError> {
        self.write(&self.blueprint.files())
    }

    /// Removes every file of it.
    pub fn remove(&self) {
        self.blueprint.files().iter().for_each(|entry| self.files().remove_all(&in_root(&entry.path)));
    }

    /// Loses the device, as after a fault on the bus. One that is lost stays so.
    ///
    /// # Errors
    /// There is no such device.
    pub fn lose(&self, device: u8) -> Result<(), SimulatedMachineError> {
        let lost = self.blueprint.lost_paths(device)?;
        lost.iter().for_each(|path| self.files().remove_all(&in_root(path)));
        Ok(())
    }

    /// Makes what is missing of the device. What is there stays as it is.
    ///
    /// # Errors
    /// There is no such device.
    pub fn restore(&self, device: u8) -> Result<(), SimulatedMachineError> {
        let mut missing = self.blueprint.device_files(device)?;
        missing.retain(|entry| !self.files().exists(&in_root(&entry.path)));
        self.write(&missing)
    }

    /// Sets the health that the driver's files show. Inf1 shows it by losing the device.
    ///
    /// # Errors
    /// There is no such device, it is lost, or its generation cannot show this.
    pub fn set_health(&self, device: u8, health: &Health) -> Result<(), SimulatedMachineError> {
        match self.blueprint.health_files(device, health)? {
            Some(_) if !self.files().exists(&self.sysfs_folder(device)?) => {
                Err(SimulatedMachineError::Lost(device))
            }
            Some(entries) => self.write(&entries),
            None if *health == Health::Healthy => self.restore(device),
            None => self.lose(device),
        }
    }

    /// Has reads of what the driver shows of the device hang (`true`), or answered again.
    ///
    /// # Errors
    /// There is no such device.
    pub fn set_hung(&self, device: u8, hangs: bool) -> Result<(), SimulatedMachineError> {
        self.files().set_hung(&self.sysfs_folder(device)?, hangs);
        Ok(())
    }

    fn sysfs_folder(&self, device: u8) -> Result<PathBuf, MachineError> {
        let [_, _, sysfs] = self.blueprint.lost_paths(device)?;
        Ok(in_root(&sysfs))
    }

    fn files(&self) -> &FileSystem {
        self.host.files()
    }

    fn write(&self, entries: &[Entry]) -> Result<(), SimulatedMachineError> {
        entries.iter().try_for_each(|entry| {
            let path = in_root(&entry.path);
            let written = match &entry.kind {
                Kind::File { content, .. } => self.files().write(&path, content.as_bytes()),
                Kind::Link { target } => self.files().make_link(&path, Path::new(target)),
                Kind::Node { minor } => self.files().make_node(&path, device_number(*minor)),
            };
            written.map_err(|source| SimulatedMachineError::File { path, source })
        })
    }
}

/// By which the kernel knows a device.
fn device_number(device: u8) -> DeviceNumber {
    DeviceNumber { major: DRIVER_MAJOR, minor: device.into() }
}

/// A path below the root, on the host.
fn in_root(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}
