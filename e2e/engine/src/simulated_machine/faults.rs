//! Faults in force on a simulated host's machine, in the words of [`fake_neuron::fault`]. As on a disk, what a fault takes away stands
//! below a folder of its own, so that lifting the fault puts back exactly that.

use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use fake_neuron::fault::{Change, Fault, FaultSpec, HardwareError, KERNEL_LOG, Put};
use jiff::Timestamp;

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
    /// What they have changed together.
    changes: Vec<Change>,
}

impl SimulatedMachine {
    /// Makes exactly these faults be in force, whatever their times say: those that are not among them are lifted, and those that are
    /// stay as they are. An error in the kernel log is written there when it strikes, and stays.
    ///
    /// # Errors
    /// A fault that the machine cannot have, or that contradicts another one; nothing is changed then.
    pub fn set_faults(&self, wanted: &[FaultSpec]) -> Result<(), SimulatedMachineError> {
        let mut in_force = self.in_force();
        let mut faults = in_force.faults.clone();
        faults.retain(|(_, spec)| wanted.contains(spec));
        let (mut last_id, known) = (in_force.last_id, faults.len());
        for spec in wanted {
            if !faults.iter().any(|(_, standing)| standing == spec) {
                last_id += 1;
                faults.push((last_id, spec.clone()));
            }
        }
        let by_id: Vec<(u32, &Fault)> = faults.iter().map(|(id, spec)| (*id, &spec.fault)).collect();
        let changes = self.blueprint.fault_changes(&by_id)?;
        let before = std::mem::take(&mut in_force.changes);
        for over in before.iter().filter(|change| !changes.contains(change)) {
            self.put_back(over)?;
        }
        for new in changes.iter().filter(|change| !before.contains(change)) {
            self.carry_out(new)?;
        }
        for (_, spec) in &faults[known..] {
            if let Fault::KernelError { device, kind } = &spec.fault {
                self.log_error(*device, *kind)?;
            }
        }
        *in_force = InForce { last_id, faults, changes };
        Ok(())
    }

    /// The faults in force, in the order in which they struck.
    pub fn faults(&self) -> Vec<FaultSpec> {
        self.in_force().faults.iter().map(|(_, spec)| spec.clone()).collect()
    }

    /// The fake kernel log, oldest record first; empty before the first one.
    pub fn kernel_log(&self) -> String {
        let log = self.files().read(&in_root(KERNEL_LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn log_error(&self, device: u8, kind: HardwareError) -> Result<(), SimulatedMachineError> {
        let mut log = self.kernel_log();
        let when = Timestamp::try_from(self.host.now()).unwrap_or_default();
        let number = log.lines().count() + 1;
        log.push_str(&self.blueprint.kernel_record(device, kind, number, self.host.since_boot(), when));
        log.push('\n');
        let path = in_root(KERNEL_LOG);
        let written = self.files().write(&path, log);
        written.map_err(|source| SimulatedMachineError::File { path, source })
    }

    fn carry_out(&self, Change { path: below, put }: &Change) -> Result<(), SimulatedMachineError> {
        let path = in_root(below);
        let is_there = self.files().exists(&path);
        match put {
            Put::Hung | Put::HungFolder if is_there => self.files().set_hung(&path, true),
            Put::Hung | Put::HungFolder => {}
            Put::Nothing | Put::File { .. } if is_there => self.move_all(&path, &taken(below))?,
            Put::Nothing | Put::File { .. } => {}
        }
        if let Put::File { content, .. } = put {
            let written = self.files().write(&path, content.as_bytes());
            written.map_err(|source| SimulatedMachineError::File { path, source })?;
        }
        Ok(())
    }

    fn put_back(&self, Change { path: below, put }: &Change) -> Result<(), SimulatedMachineError> {
        let (path, taken) = (in_root(below), taken(below));
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

/// Where what was at a path stands meanwhile.
fn taken(below: &str) -> PathBuf {
    Path::new(TAKEN).join(below.replace('/', "-"))
}
