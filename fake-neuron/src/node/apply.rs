//! Makes the files say what a [`Wish`] says, changing as little as possible: whoever uses the hardware must not see
//! it vanish because something else was asked for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use neuron_core::catalog::Catalog;

use crate::machine::disk;
use crate::node::desired::{DeviceState, Wish};
use crate::{Health, Machine, MachineError, MachineSpec};

/// Why a wish could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The machine cannot be made or changed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A file that is not below the root.
    #[error("file {0:?} is not below the machine's root: write a relative path without `..`")]
    Outside(String),
}

/// Carries out `wish` under `root`. `before` is what stands there, if known: with the same machine and files only
/// devices change; else the machine is made anew. Errors leave the machine for the next try.
pub fn apply(root: &Path, before: Option<&Wish>, wish: &Wish, catalog: &Catalog) -> Result<(), ApplyError> {
    let kept = before.filter(|before| before.is_same_machine(wish) && Machine::open(root).is_ok());
    if kept.is_none() {
        remove(root, before)?;
    }
    let Some(instance_type) = wish.instance_type.clone() else { return Ok(()) };
    let machine =
        Machine::up(&MachineSpec { instance_type, lnc: wish.lnc, instance_id: None }, root, catalog)?;
    if let Some(unknown) = wish.devices.keys().find(|id| **id >= machine.devices()) {
        machine.check_device(*unknown)?;
    }
    for id in 0..machine.devices() {
        if kept.map_or(DeviceState::Healthy, |kept| kept.device(id)) != wish.device(id) {
            set(&machine, id, wish.device(id))?;
        }
    }
    // Last: a file that is missing by wish must stay missing when its device is restored.
    change_files(machine.root(), &wish.files)
}

/// Removes the hardware and the files that `before` added to it; no hardware is no error.
pub fn remove(root: &Path, before: Option<&Wish>) -> Result<(), ApplyError> {
    for path in before.iter().flat_map(|before| before.files.keys()) {
        // A path outside was never written.
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
            // In a lost device's folder there is nothing to change.
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

/// Where `name` is, if its folder is there. An error if that is outside of `root`, by `..` or by a link.
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
