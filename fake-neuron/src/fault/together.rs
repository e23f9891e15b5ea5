//! What faults that are in force together change. Pure but for what [`super::files`] looks up. Called by [`super::carry_out`], and
//! through [`Blueprint::fault_changes`] by who keeps a machine's files elsewhere than on a disk.

use std::path::Path;

use super::changes::changes;
use super::files::Files;
use super::{Change, Fault, FaultError, Put, hung};
use crate::Blueprint;
use crate::machine::tree;

impl Blueprint {
    /// What these faults, each with its id and in the order in which they struck, change together on such a machine. No path is below
    /// another one.
    ///
    /// # Errors
    /// The machine has no such device, core, link, counter or file, or one fault contradicts an earlier one.
    pub fn fault_changes(&self, in_force: &[(u32, &Fault)]) -> Result<Vec<Change>, FaultError> {
        changes_of(self, in_force)
    }
}

/// As [`Blueprint::fault_changes`], for any machine.
///
/// Links that are broken are all missing, and so are broken components; of two texts of a file the later counts; what hangs does so
/// whatever else is broken in it, and what is gone is gone.
///
/// # Errors
/// As there.
pub(super) fn changes_of(machine: &dyn Files, in_force: &[(u32, &Fault)]) -> Result<Vec<Change>, FaultError> {
    let mut together: Vec<Change> = Vec::new();
    for (place, (_, fault)) in in_force.iter().enumerate() {
        let earlier = &in_force[..place];
        for change in changes(machine, fault, earlier.iter().map(|(_, fault)| *fault))? {
            add(&mut together, change);
        }
        // After the fault's own check, which knows more of what was meant.
        earlier.iter().try_for_each(|earlier| check_beside(machine, fault, *earlier))?;
    }
    Ok(together)
}

fn add(together: &mut Vec<Change>, change: Change) {
    if !together.iter().any(|there| hides(there, &change)) {
        together.retain(|there| there.path != change.path && !hides(&change, there));
        together.push(change);
    }
}

/// Whether nothing is seen of a change because of another one at its path or above.
fn hides(over: &Change, under: &Change) -> bool {
    let rank = |put: &Put| match put {
        Put::File { .. } => 0,
        Put::Hung | Put::HungFolder => 1,
        Put::Nothing => 2,
    };
    let is_file = matches!(over.put, Put::File { .. });
    !is_file && Path::new(&under.path).starts_with(&over.path) && rank(&over.put) >= rank(&under.put)
}

/// Refuses a fault that says the opposite of what an earlier one says, with its id.
fn check_beside(machine: &dyn Files, fault: &Fault, (id, earlier): (u32, &Fault)) -> Result<(), FaultError> {
    let contradicts = |because| {
        Err(FaultError::Contradicts { fault: fault.clone(), because, id, earlier: earlier.clone() })
    };
    match (fault, earlier) {
        (Fault::CoreHeld { core, pid }, Fault::CoreHeld { core: held, pid: holder })
            if core == held && pid != holder =>
        {
            contradicts(format!("core {core} is held by one process"))
        }
        (Fault::HungRead { path: Some(path), .. }, Fault::HungRead { device: Some(device), .. })
        | (Fault::HungRead { device: Some(device), .. }, Fault::HungRead { path: Some(path), .. })
            if answers(&machine.file_named(path)?, *device) =>
        {
            contradicts(format!("of a device that hangs, {path} is the kernel's own and answers"))
        }
        _ => Ok(()),
    }
}

/// Whether the file is one that goes on answering while all that the driver shows of the device hangs.
fn answers(path: &str, device: u8) -> bool {
    let below = Path::new(path).strip_prefix(tree::sysfs_folder(device)).ok();
    let first = below.and_then(|below| below.components().next());
    first.is_some_and(|first| hung::KERNELS_OWN.iter().any(|own| first.as_os_str() == *own))
}
