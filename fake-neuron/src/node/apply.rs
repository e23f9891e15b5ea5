//! Makes the files match a [`DesiredHardware`] and changes as little as possible: whoever uses a device must not see it vanish
//! because something else was asked for. Called by [`super::Keeper`].

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use neuron_core::catalog::Catalog;

use crate::fault::FaultError;
use crate::machine::disk;
use crate::node::desired::{DesiredHardware, DeviceState};
use crate::node::faults;
use crate::{Health, Machine, MachineError, MachineSpec};

/// Why the desired hardware could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The machine cannot be made or changed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A file outside of the root.
    #[error("file {0:?} is not below the machine's root: write a relative path without `..`")]
    Outside(String),
    /// A fault cannot be carried out or lifted.
    #[error(transparent)]
    Fault(#[from] FaultError),
}

/// Makes `desired` under `root`. `before` is what was applied there last, if known: where machine and files are the same, only
/// devices and faults change, else the machine is made anew. Of faults only those are carried out that begin at once and last;
/// the others are checked.
///
/// # Errors
/// A machine that cannot be made or changed, a file outside of the root. What was made stays for the next try.
pub fn apply(
    root: &Path,
    before: Option<&DesiredHardware>,
    desired: &DesiredHardware,
    catalog: &Catalog,
) -> Result<(), ApplyError> {
    let kept = before.filter(|before| before.is_same_machine(desired) && Machine::open(root).is_ok());
    if kept.is_none() {
        remove(root, before)?;
    }
    let Some(instance_type) = desired.instance_type.clone() else { return Ok(()) };
    let (lnc, driver) = (desired.lnc, desired.driver.clone());
    let machine = Machine::up(&MachineSpec { instance_type, lnc, instance_id: None, driver }, root, catalog)?;
    if let Some(unknown) = desired.devices.keys().find(|id| **id >= machine.devices()) {
        machine.check_device(*unknown)?;
    }
    for id in 0..machine.devices() {
        if kept.map_or(DeviceState::Healthy, |kept| kept.device(id)) != desired.device(id) {
            set(&machine, id, desired.device(id))?;
        }
    }
    // Last: a file that is to be missing must stay missing when its device is restored.
    change_files(machine.root(), &desired.files)?;
    let broken = kept.map(|kept| kept.faults.as_slice()).unwrap_or_default();
    Ok(faults::reconcile(&machine, broken, &desired.faults)?)
}

/// Removes the hardware and the files that `before` added to it. No hardware is no error.
///
/// # Errors
/// The file system refuses.
pub fn remove(root: &Path, before: Option<&DesiredHardware>) -> Result<(), ApplyError> {
    for path in before.iter().flat_map(|before| before.files.keys()) {
        // A path outside of the root was never written.
        if let Ok(Some(path)) = inside(root, path) {
            disk::remove_file(&path)?;
        }
    }
    match Machine::down_at(root) {
        Ok(()) | Err(MachineError::NoMachine { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn set(machine: &Machine, id: u8, state: DeviceState) -> Result<(), MachineError> {
    match state {
        DeviceState::Lost => machine.lose(id),
        DeviceState::Healthy => {
            machine.restore(id)?;
            machine.set_health(id, &Health::Healthy)
        }
        DeviceState::Unhealthy => {
            machine.restore(id)?;
            machine.set_health(id, &Health::unhealthy("hbm"))
        }
    }
}

fn change_files(root: &Path, files: &BTreeMap<String, Option<String>>) -> Result<(), ApplyError> {
    for (name, text) in files {
        match (inside(root, name)?, text) {
            // A lost device's folder has nothing to change.
            (None, _) => {}
            (Some(path), None) => disk::remove_file(&path)?,
            (Some(path), Some(text)) => {
                if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                    disk::replace(root, name, text, 0o644)?;
                }
            }
        }
    }
    Ok(())
}

/// The path of `name`, if its folder is there.
///
/// # Errors
/// It is outside of `root`, by `..` or by a link.
fn inside(root: &Path, name: &str) -> Result<Option<PathBuf>, ApplyError> {
    let outside = || ApplyError::Outside(name.to_owned());
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    let (true, Some(folder)) = (plain, path.parent()) else { return Err(outside()) };
    let (Ok(folder), Ok(root_path)) = (root.join(folder).canonicalize(), root.canonicalize()) else {
        return Ok(None);
    };
    if folder.starts_with(root_path) { Ok(Some(root.join(path))) } else { Err(outside()) }
}
