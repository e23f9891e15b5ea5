//! Writes a load's counters into a machine's files, each second. Run by `fake-neuron load` and by `exec` on a thread.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{CoreUsage, DeviceUsage, LoadInForce, Profile, core_files, core_memory, device_files};
use crate::fault::Stop;
use crate::machine::{disk, sysfs};
use crate::{Machine, MachineError};

/// A load on a machine's files.
#[derive(Debug)]
pub struct Load<'a> {
    machine: &'a Machine,
    profile: Profile,
    /// What was written last, by path.
    written: BTreeMap<String, String>,
}

impl<'a> Load<'a> {
    /// A load of this profile. Nothing is written yet.
    pub fn new(machine: &'a Machine, profile: Profile) -> Load<'a> {
        Load { machine, profile, written: BTreeMap::new() }
    }

    /// Writes the counters as they are `second` seconds after the load's start. Files that the machine has not, because it was
    /// made without counters or its device is lost, are left out, and so are reads that hang. Number of files written.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn write(&mut self, second: u64) -> Result<usize, MachineError> {
        let description = self.machine.description();
        let (cores, memory) = (description.cores_per_device, core_memory(description.generation));
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut count = 0;
        for device in description.devices() {
            let usage = DeviceUsage::of(self.profile, second, device, cores);
            let folder = sysfs::below(description, device);
            count += self.write_files(&folder, device_files(&usage, epoch))?;
            for core in 0..cores {
                let usage = CoreUsage::of(self.profile, second, device, core, memory);
                let folder = sysfs::core_below(description, device, core);
                count += self.write_files(&folder, core_files(&usage))?;
            }
        }
        Ok(count)
    }

    /// Writes each second until `stop` is asked, from second 0 on. The counters stay as they are then. Meanwhile
    /// [`LoadInForce`] says which load it is.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn run(&mut self, stop: &Stop) -> Result<(), MachineError> {
        LoadInForce::begun(self.profile).write(self.machine.root())?;
        let done = self.write_each_second(stop);
        done.and(LoadInForce::remove(self.machine.root()))
    }

    fn write_each_second(&mut self, stop: &Stop) -> Result<(), MachineError> {
        let start = Instant::now();
        let mut ended = false;
        while !ended {
            // A disk that is too slow for a second's files loses seconds, not the time.
            let second = start.elapsed().as_secs();
            self.write(second)?;
            // A load goes on while its machine is broken.
            if let Err(error) = self.machine.lift_ended() {
                tracing::warn!(%error, "a fault whose end has passed stays in force");
            }
            ended = stop.wait_until(start + Duration::from_secs(second + 1));
        }
        Ok(())
    }

    fn write_files(&mut self, folder: &str, files: Vec<(String, String)>) -> Result<usize, MachineError> {
        let mut count = 0;
        for (path, text) in files {
            count += usize::from(self.write_file(format!("{folder}/{path}"), text)?);
        }
        Ok(count)
    }

    fn write_file(&mut self, path: String, text: String) -> Result<bool, MachineError> {
        if self.written.get(&path) == Some(&text) {
            return Ok(false);
        }
        let there = self.machine.root().join(&path).symlink_metadata();
        let Some(file) = there.ok().filter(|metadata| metadata.is_file()) else { return Ok(false) };
        let mode = file.permissions().mode() & 0o7777;
        match disk::replace(self.machine.root(), &path, &text, mode) {
            Ok(()) => {
                self.written.insert(path, text);
                Ok(true)
            }
            // The device was lost at this moment.
            Err(MachineError::Io { reason, .. }) if reason.kind() == std::io::ErrorKind::NotFound => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
