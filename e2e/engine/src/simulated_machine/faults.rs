//! Faults in force on a simulated host's machine, in the words of [`fake_neuron::fault`]. As on a disk, what a fault takes away stands
//! at the same path below the fault's own folder, so that lifting it puts back exactly that.

use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use fake_neuron::fault::{Change, Fault, FaultSpec, Put};

use super::{SimulatedMachine, SimulatedMachineError, in_root};

/// Where what faults take away stands, on the host.
const TAKEN: &str = "/.fake-neuron/taken";

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct InForce {
    /// The id of the last fault.
    last_id: u32,
    /// By their ids, in the order in which they struck.
    faults: Vec<(u32, FaultSpec)>,
}

impl SimulatedMachine {
    /// Makes exactly these faults be in force, whatever their times say: those that are not among them are lifted, the youngest first,
    /// and those that are stay as they are. Who prints to the kernel log is not simulated: an error there is noted and no more.
    ///
    /// # Errors
    /// A fault that the machine cannot have, where nothing is changed; one that meets another one, where those before it are in force.
    pub fn set_faults(&self, wanted: &[FaultSpec]) -> Result<(), SimulatedMachineError> {
        wanted.iter().try_for_each(|spec| self.blueprint.fault_changes(&spec.fault, &[]).map(drop))?;
        let mut in_force = self.in_force();
        let (stay, over): (Vec<_>, Vec<_>) =
            in_force.faults.drain(..).partition(|(_, spec)| wanted.contains(spec));
        in_force.faults = stay;
        for (id, spec) in over.iter().rev() {
            for change in self.blueprint.fault_changes(&spec.fault, &[])?.iter().rev() {
                self.put_back(*id, change)?;
            }
            self.files().remove_all(&folder_of(*id));
        }
        let standing: Vec<FaultSpec> = in_force.faults.iter().map(|(_, spec)| spec.clone()).collect();
        for spec in wanted.iter().filter(|spec| !standing.contains(*spec)) {
            let earlier: Vec<(u32, Fault)> =
                in_force.faults.iter().map(|(id, spec)| (*id, spec.fault.clone())).collect();
            let changes = self.blueprint.fault_changes(&spec.fault, &earlier)?;
            in_force.last_id += 1;
            let id = in_force.last_id;
            in_force.faults.push((id, spec.clone()));
            changes.iter().try_for_each(|change| self.carry_out(id, change))?;
        }
        Ok(())
    }

    /// The faults in force, in the order in which they struck.
    pub fn faults(&self) -> Vec<FaultSpec> {
        self.in_force().faults.iter().map(|(_, spec)| spec.clone()).collect()
    }

    fn carry_out(&self, id: u32, Change { path: below, put }: &Change) -> Result<(), SimulatedMachineError> {
        let path = in_root(below);
        let is_there = self.files().exists(&path);
        match put {
            Put::Hung | Put::HungFolder if is_there => self.files().set_hung(&path, true),
            Put::Hung | Put::HungFolder => {}
            Put::Nothing | Put::File { .. } if is_there => {
                self.move_all(&path, &folder_of(id).join(below))?
            }
            Put::Nothing | Put::File { .. } => {}
        }
        if let Put::File { content, .. } = put {
            let written = self.files().write(&path, content.as_bytes());
            written.map_err(|source| SimulatedMachineError::File { path, source })?;
        }
        Ok(())
    }

    fn put_back(&self, id: u32, Change { path: below, put }: &Change) -> Result<(), SimulatedMachineError> {
        let (path, taken) = (in_root(below), folder_of(id).join(below));
        let was_there = self.files().exists(&taken);
        match put {
            Put::Hung | Put::HungFolder => self.files().set_hung(&path, false),
            // Nothing was there to take and nothing was put.
            Put::Nothing if !was_there => {}
            Put::Nothing | Put::File { .. } => self.files().remove_all(&path),
        }
        if was_there { self.move_all(&taken, &path) } else { Ok(()) }
    }

    fn move_all(&self, from: &Path, to: &Path) -> Result<(), SimulatedMachineError> {
        let moved = self.files().move_all(from, to);
        moved.map_err(|source| SimulatedMachineError::File { path: to.to_owned(), source })
    }

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn folder_of(id: u32) -> PathBuf {
    Path::new(TAKEN).join(id.to_string())
}
