//! Carries faults out on a machine's files and lifts them again. What a fault takes away stands at the same path below
//! `.fake-neuron/taken/ID`, so that lifting it puts back exactly that. Called through [`Machine`].

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::changes::{Change, Put, changes, check_beside};
use super::standing::Changed;
use super::{Fault, FaultError, FaultSpec, Faults, Standing, State, hung, kernel_log};
use crate::Machine;
use crate::machine::disk::{self, STATE};

impl Machine {
    /// Checks that the fault can strike this machine, whatever else is in force. Nothing is written.
    ///
    /// # Errors
    /// The machine has no such device, core, link, counter or file; a chance or a time that makes no sense.
    pub fn check_fault(&self, spec: &FaultSpec) -> Result<(), FaultError> {
        spec.check()?;
        changes(self, &spec.fault).map(drop)
    }

    /// Notes a fault that is to strike later, so that it is listed. Its id.
    ///
    /// # Errors
    /// As [`Machine::check_fault`], and the file system's refusal.
    pub fn announce(&self, spec: &FaultSpec) -> Result<u32, FaultError> {
        self.check_fault(spec)?;
        self.with_faults(|faults| {
            let at = now() + u64::try_from(spec.after.as_millis()).unwrap_or(u64::MAX / 2);
            let id = add(faults, spec, State::Pending, at);
            faults.write(self.root())?;
            Ok(id)
        })
    }

    /// Carries the fault out now, whatever its times and its chance say. Its id, by which it is lifted; `None` for one that
    /// happens once and is over.
    ///
    /// # Errors
    /// As [`Machine::check_fault`]; another fault has changed the same; the file system's refusal, and nothing is changed then.
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

    /// Lifts a fault that has struck, or forgets one that is still to come.
    ///
    /// # Errors
    /// There is no such fault; the file system's refusal.
    pub fn lift(&self, id: u32) -> Result<(), FaultError> {
        self.with_faults(|faults| {
            let place = faults.faults.iter().position(|standing| standing.id == id);
            let place = place.ok_or(FaultError::NoFault { id })?;
            self.put_back(id, &faults.faults[place].changed)?;
            faults.faults.remove(place);
            faults.write(self.root())
        })
    }

    /// Lifts every fault. The number of them.
    ///
    /// # Errors
    /// The file system's refusal; the faults before it are lifted.
    pub fn lift_all(&self) -> Result<usize, FaultError> {
        let ids: Vec<u32> = self.faults()?.faults.iter().map(|standing| standing.id).collect();
        // The youngest first: it may stand on what an older one made.
        ids.iter().rev().try_for_each(|id| match self.lift(*id) {
            // Its own program was faster.
            Err(FaultError::NoFault { .. }) => Ok(()),
            other => other,
        })?;
        Ok(ids.len())
    }

    /// The faults in force and to come.
    ///
    /// # Errors
    /// Their file cannot be read.
    pub fn faults(&self) -> Result<Faults, FaultError> {
        Faults::read(self.root())
    }

    fn strike_as(&self, spec: &FaultSpec, announced: Option<u32>) -> Result<Option<u32>, FaultError> {
        self.check_fault(spec)?;
        self.with_faults(|faults| {
            let changes = changes(self, &spec.fault)?;
            check_free(faults, &spec.fault, &changes)?;
            if let Fault::KernelError { device, kind } = &spec.fault {
                faults.kernel_lines += 1;
                faults.faults.retain(|standing| Some(standing.id) != announced);
                // Noted first: the log is removed with the machine only if it is noted.
                faults.write(self.root())?;
                kernel_log::append(self, *device, *kind)?;
                return Ok(None);
            }
            let id = match announced {
                Some(id) => id,
                None => add(faults, spec, State::InForce, now()),
            };
            let changed: Vec<Changed> = changes.iter().map(|change| self.changed(change)).collect();
            let standing = faults.faults.iter_mut().find(|standing| standing.id == id);
            let standing = standing.ok_or(FaultError::NoFault { id })?;
            (standing.state, standing.at, standing.changed) = (State::InForce, now(), changed.clone());
            // Noted first, so that an interrupted strike can be lifted.
            faults.write(self.root())?;
            let struck = changes.iter().try_for_each(|change| self.change(id, change));
            if let Err(refused) = struck {
                // The first error is the one to tell.
                let _ = self.put_back(id, &changed);
                faults.faults.retain(|standing| standing.id != id);
                faults.write(self.root())?;
                return Err(refused);
            }
            Ok(Some(id))
        })
    }

    fn changed(&self, change: &Change) -> Changed {
        let was_there = disk::is_there(&self.root().join(&change.path));
        let put = match change.put {
            Put::Nothing => false,
            Put::HungFolder => was_there,
            Put::File { .. } | Put::Hung => true,
        };
        Changed { path: change.path.clone(), was_there, put }
    }

    /// Puts what shall stand at the path there, and what stood there into the fault's folder, in one step.
    fn change(&self, id: u32, change: &Change) -> Result<(), FaultError> {
        disk::check_parents(self.root(), &change.path)?;
        let (path, taken) = (self.root().join(&change.path), self.taken(id, &change.path));
        let is_there = disk::is_there(&path);
        make_parent(&taken)?;
        match &change.put {
            Put::Nothing | Put::HungFolder if !is_there => return Ok(()),
            Put::Nothing => return rename(&path, &taken),
            Put::File { content, mode } => disk::write(&taken, content, *mode)?,
            Put::Hung => hung::make(&taken)?,
            Put::HungFolder => hung::make_folder(&path, &taken)?,
        }
        if is_there {
            return exchange(&path, &taken);
        }
        make_parent(&path)?;
        rename(&taken, &path)
    }

    /// Puts back what the fault took, and wakes who hangs on what it had put there.
    fn put_back(&self, id: u32, changed: &[Changed]) -> Result<(), FaultError> {
        for Changed { path: below, was_there, put } in changed.iter().rev() {
            disk::check_parents(self.root(), below)?;
            let (path, taken) = (self.root().join(below), self.taken(id, below));
            match (was_there, disk::is_there(&taken), disk::is_there(&path)) {
                (true, true, true) => {
                    exchange(&path, &taken)?;
                    hung::wake(&taken, &path);
                }
                (true, true, false) => {
                    make_parent(&path)?;
                    rename(&taken, &path)?;
                }
                // It had not come so far.
                (true, false, _) => {}
                // Nothing was there to take and nothing was put.
                (false, ..) if !put => {}
                (false, ..) => {
                    disk::remove_file(&path)?;
                    disk::remove_empty_parents(self.root(), below)?;
                }
            }
        }
        let folder = self.root().join(STATE).join("taken").join(id.to_string());
        disk::remove_folder(&folder)?;
        Ok(())
    }

    fn taken(&self, id: u32, below: &str) -> PathBuf {
        self.root().join(STATE).join("taken").join(id.to_string()).join(below)
    }

    /// Reads the faults for a change, while no other program changes them.
    fn with_faults<T>(
        &self,
        change: impl FnOnce(&mut Faults) -> Result<T, FaultError>,
    ) -> Result<T, FaultError> {
        let folder = self.root().join(STATE);
        disk::check_parents(self.root(), &format!("{STATE}/lock"))?;
        fs::create_dir_all(&folder).map_err(io("make", &folder))?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(io("make", &path))?;
        lock.lock().map_err(io("lock", &path))?;
        change(&mut self.faults()?)
    }
}

fn add(faults: &mut Faults, spec: &FaultSpec, state: State, at: u64) -> u32 {
    faults.last_id += 1;
    let id = faults.last_id;
    faults.faults.push(Standing { id, state, at, spec: spec.clone(), changed: Vec::new() });
    id
}

/// Refuses a fault that would change what another one in force has changed.
fn check_free(faults: &Faults, fault: &Fault, changes: &[Change]) -> Result<(), FaultError> {
    let mut in_force = faults.faults.iter().filter(|standing| standing.state == State::InForce);
    in_force.try_for_each(|standing| {
        let changed = standing.changed.iter().map(|changed| changed.path.as_str());
        check_beside(fault, changes, (standing.id, &standing.spec.fault), changed)
    })
}

fn exchange(path: &Path, other: &Path) -> Result<(), FaultError> {
    match renameat_with(CWD, path, CWD, other, RenameFlags::EXCHANGE) {
        // Some file systems, such as NFS, cannot: for a moment nothing is there then.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let mut spare = other.as_os_str().to_owned();
            spare.push(".spare");
            rename(path, Path::new(&spare))?;
            rename(other, path)?;
            rename(Path::new(&spare), other)
        }
        exchanged => exchanged.map_err(|reason| io("change", path)(reason.into())),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), FaultError> {
    fs::rename(from, to).map_err(io("change", from))
}

fn make_parent(path: &Path) -> Result<(), FaultError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(io("make", folder))
}

/// Milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> FaultError {
    let path = path.to_owned();
    move |reason| FaultError::Io { action, path, reason }
}
