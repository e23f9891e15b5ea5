//! Carries faults out on a machine and lifts them again: who may, in which order, and what is noted of it. The files are
//! [`super::on_disk`]'s. Called through [`Machine`].

use std::fs::{self, File};

use super::healthy::Healthy;
use super::standing::{milliseconds, now};
use super::together::changes_of;
use super::{Fault, FaultError, FaultSpec, Faults, Standing, State, kernel_log, on_disk};
use crate::Machine;
use crate::machine::disk::{self, STATE};

impl Machine {
    /// Checks that the fault can strike this machine, whatever else is in force. Nothing is written.
    ///
    /// # Errors
    /// The machine has no such device, core, link, counter or file; a chance or a time that makes no sense.
    pub fn check_fault(&self, spec: &FaultSpec) -> Result<(), FaultError> {
        self.check_on(&Faults::read(self.root())?, spec)
    }

    /// Notes a fault that is to strike later, so that it is listed. Its id.
    ///
    /// # Errors
    /// As [`Machine::check_fault`], and the file system's refusal.
    pub fn announce(&self, spec: &FaultSpec) -> Result<u32, FaultError> {
        self.check_fault(spec)?;
        self.with_faults(|faults| {
            let (id, at) = (faults.last_id + 1, now().saturating_add(milliseconds(spec.after)));
            let mut after = Faults { last_id: id, ..faults.clone() };
            after.faults.push(Standing::new(id, spec, State::Pending, at));
            after.write(self.root())?;
            Ok(id)
        })
    }

    /// Carries the fault out now, whatever its times and its chance say. Its id, by which it is lifted; `None` for one that
    /// happens once and is over.
    ///
    /// # Errors
    /// As [`Machine::check_fault`]; a fault in force says the opposite; the file system's refusal, and nothing is changed then.
    pub fn strike(&self, spec: &FaultSpec) -> Result<Option<u32>, FaultError> {
        self.strike_as(spec, None)
    }

    /// As [`Machine::strike`], for a fault that was announced under this id.
    ///
    /// # Errors
    /// As [`Machine::strike`]; it was cleared before it struck.
    pub fn strike_announced(&self, spec: &FaultSpec, id: u32) -> Result<Option<u32>, FaultError> {
        self.strike_as(spec, Some(id))
    }

    /// Lifts a fault that has struck, or forgets one that is still to come. Other faults stay in force.
    ///
    /// # Errors
    /// There is no such fault; the file system's refusal, and nothing is changed then.
    pub fn lift(&self, id: u32) -> Result<(), FaultError> {
        self.with_faults(|faults| {
            let mut left = faults.clone();
            left.faults.retain(|standing| standing.id != id);
            if left.faults.len() == faults.faults.len() {
                return Err(FaultError::NoFault { id });
            }
            on_disk::show(self, faults, left)
        })
    }

    /// Lifts every fault. The number of them.
    ///
    /// # Errors
    /// The file system's refusal, and nothing is changed then.
    pub fn lift_all(&self) -> Result<usize, FaultError> {
        self.with_faults(|faults| {
            let left = Faults { faults: Vec::new(), ..faults.clone() };
            on_disk::show(self, faults, left).map(|()| faults.faults.len())
        })
    }

    /// Lifts the faults whose end has passed without anybody lifting them, as when the `fake-neuron fault --for` that struck them was
    /// killed. Whatever else changes faults does so, too.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn lift_ended(&self) -> Result<(), FaultError> {
        let mut faults = Faults::read(self.root())?;
        if faults.forget_ended() { self.with_faults(|_| Ok(())) } else { Ok(()) }
    }

    /// The faults in force and to come. Those whose end has passed are lifted first.
    ///
    /// # Errors
    /// Their file cannot be read, or the file system refuses to have one lifted.
    pub fn faults(&self) -> Result<Faults, FaultError> {
        self.lift_ended()?;
        Faults::read(self.root())
    }

    /// Whether a fault has written to the kernel log.
    pub(crate) fn has_kernel_lines(&self) -> bool {
        Faults::read(self.root()).is_ok_and(|faults| faults.kernel_lines > 0)
    }

    fn check_on(&self, faults: &Faults, spec: &FaultSpec) -> Result<(), FaultError> {
        spec.check()?;
        changes_of(&Healthy::of(self, &faults.changed), &[(0, &spec.fault)]).map(drop)
    }

    fn strike_as(&self, spec: &FaultSpec, announced: Option<u32>) -> Result<Option<u32>, FaultError> {
        self.with_faults(|faults| {
            self.check_on(faults, spec)?;
            let mut after = faults.clone();
            after.faults.retain(|standing| Some(standing.id) != announced);
            if let Some(id) = announced
                && after.faults.len() == faults.faults.len()
            {
                return Err(FaultError::NoFault { id });
            }
            if let Fault::KernelError { device, kind } = &spec.fault {
                after.kernel_lines += 1;
                // Noted first: the log is removed with the machine only if it is noted.
                after.write(self.root())?;
                kernel_log::append(self, *device, *kind)?;
                return Ok(None);
            }
            after.last_id += u32::from(announced.is_none());
            let id = announced.unwrap_or(after.last_id);
            after.faults.push(Standing::new(id, spec, State::InForce, now()));
            on_disk::show(self, faults, after).map(|()| Some(id))
        })
    }

    /// Reads the faults for a change, while no other program changes them. Those whose end has passed are lifted first.
    fn with_faults<T>(&self, change: impl FnOnce(&Faults) -> Result<T, FaultError>) -> Result<T, FaultError> {
        let folder = self.root().join(STATE);
        disk::check_parents(self.root(), &format!("{STATE}/lock"))?;
        fs::create_dir_all(&folder).map_err(FaultError::io("make", &folder))?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(FaultError::io("make", &path))?;
        lock.lock().map_err(FaultError::io("lock", &path))?;
        let mut faults = Faults::read(self.root())?;
        let mut left = faults.clone();
        if left.forget_ended() || faults.unfinished {
            on_disk::show(self, &faults, left)?;
            faults = Faults::read(self.root())?;
        }
        change(&faults)
    }
}
