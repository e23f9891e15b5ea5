//! Makes a machine's files what the faults in force say. What is taken away stands below `.fake-neuron/taken`, in a folder of each
//! changed path at the same path again, so that the last fault that is lifted puts back exactly that. Called by
//! [`super::carry_out`].

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::healthy::Healthy;
use super::standing::Changed;
use super::together::changes_of;
use super::{Change, Fault, FaultError, Faults, Put, hung};
use crate::Machine;
use crate::machine::disk::{self, STATE};
use crate::machine::tree;

/// Passes from what the faults `before` made of the files to what those of `after` make of them, and notes it. A reader sees nothing
/// healed in between that is broken before and after.
///
/// # Errors
/// A fault contradicts another one, or the file system refuses; the files are then as `before`, as far as it lets them.
pub(super) fn show(machine: &Machine, before: &Faults, mut after: Faults) -> Result<(), FaultError> {
    let root = machine.root();
    let mut from = before.changed.clone();
    if before.unfinished {
        put_all_back(root, &from)?;
        from.clear();
    }
    let to = wanted(machine, &from, &after)?;
    to.iter().try_for_each(|changed| disk::check_parents(root, &changed.path))?;
    let is_in = |list: &[Changed], path: &str| list.iter().any(|changed| changed.path == path);
    let others = from.iter().filter(|changed| !is_in(&to, &changed.path));
    let touched: Vec<Changed> = to.iter().chain(others).cloned().collect();
    // Noted first, so that what is interrupted can be put back.
    let begun = Faults { changed: touched.clone(), unfinished: true, ..before.clone() };
    begun.write(root)?;
    if let Err(refused) = pass(root, &from, &to) {
        // The first error is the one to tell; what is noted lets the next call try again.
        let _ = put_all_back(root, &touched).and_then(|()| wanted(machine, &[], before)).and_then(|to| {
            pass(root, &[], &to)?;
            Faults { changed: to, unfinished: false, ..before.clone() }.write(root)
        });
        return Err(refused);
    }
    (after.changed, after.unfinished) = (to, false);
    after.write(root)
}

/// The folder in which what stood at the path stands meanwhile.
pub(super) fn taken(root: &Path, path: &str) -> PathBuf {
    root.join(STATE).join("taken").join(path.replace('/', "-"))
}

/// What the faults in force make of the files, where `now` is what is made of them.
fn wanted(machine: &Machine, now: &[Changed], faults: &Faults) -> Result<Vec<Changed>, FaultError> {
    let healthy = Healthy::of(machine, now);
    let in_force: Vec<(u32, &Fault)> =
        faults.struck().map(|standing| (standing.id, &standing.spec.fault)).collect();
    let changes = changes_of(&healthy, &in_force)?;
    let changed = changes.into_iter().map(|Change { path, put }| {
        let was_there = healthy.is_there(&path);
        Changed { path, put, was_there }
    });
    Ok(changed.collect())
}

fn pass(root: &Path, from: &[Changed], to: &[Changed]) -> Result<(), FaultError> {
    let is_in = |list: &[Changed], changed: &Changed| list.iter().any(|other| other.path == changed.path);
    for changed in to {
        match from.iter().find(|there| there.path == changed.path) {
            Some(there) if there.put == changed.put => {}
            Some(_) => put_another(root, changed)?,
            None if from.iter().any(|there| is_below(changed, there)) => {}
            None => {
                take(root, root, changed)?;
                // What others had broken in it is whole again while nobody sees it.
                for inner in from.iter().filter(|there| is_below(there, changed)) {
                    put_back(root, &taken(root, &changed.path), inner)?;
                }
            }
        }
    }
    let is_over = |there: &&Changed| !is_in(to, there) && !to.iter().any(|over| is_below(there, over));
    for there in from.iter().filter(is_over) {
        // What others break in it is broken before anybody sees it.
        for inner in to.iter().filter(|changed| is_below(changed, there)) {
            take(root, &taken(root, &there.path), inner)?;
        }
        put_back(root, root, there)?;
    }
    Ok(())
}

/// Puts everything back, whichever part of it was done.
fn put_all_back(root: &Path, changed: &[Changed]) -> Result<(), FaultError> {
    let mut outer_first: Vec<&Changed> = changed.iter().collect();
    outer_first.sort_by_key(|changed| changed.path.len());
    outer_first.into_iter().try_for_each(|changed| put_back(root, root, changed))
}

fn is_below(inner: &Changed, outer: &Changed) -> bool {
    inner.path != outer.path && Path::new(&inner.path).starts_with(&outer.path)
}

/// Puts what shall stand at the path below `base` there, and what stood there into the path's own folder, in one step.
fn take(root: &Path, base: &Path, changed: &Changed) -> Result<(), FaultError> {
    disk::check_parents(base, &changed.path)?;
    let (path, taken) = (base.join(&changed.path), taken(root, &changed.path).join(&changed.path));
    let is_there = disk::is_there(&path);
    // A setting that is missing can be wrong, too, but what is missing of a lost device stays so.
    let is_of_lost = changed.path.starts_with(tree::DEVICES) && !path.parent().is_some_and(disk::is_there);
    if is_of_lost || (!is_there && !matches!(changed.put, Put::File { .. })) {
        return Ok(());
    }
    make_parent(&taken)?;
    if changed.put == Put::Nothing {
        return rename(&path, &taken);
    }
    make(&changed.put, &path, &taken)?;
    if is_there {
        return exchange(&path, &taken);
    }
    make_parent(&path)?;
    rename(&taken, &path)
}

/// Puts another thing where a fault has put one already.
fn put_another(root: &Path, changed: &Changed) -> Result<(), FaultError> {
    disk::check_parents(root, &changed.path)?;
    let (path, folder) = (root.join(&changed.path), taken(root, &changed.path));
    let (taken, next) = (folder.join(&changed.path), folder.join("next"));
    if !changed.was_there && !matches!(changed.put, Put::File { .. }) {
        return Ok(());
    }
    remove(&next)?;
    make_parent(&next)?;
    match (&changed.put, disk::is_there(&path)) {
        (Put::Nothing, true) => rename(&path, &next)?,
        (Put::Nothing, false) => {}
        (put, is_there) => {
            make(put, &taken, &next)?;
            if is_there { exchange(&path, &next)? } else { rename(&next, &path)? }
        }
    }
    hung::wake(&next, &path);
    remove(&next)
}

/// Makes what stands for `original` at `to`.
fn make(put: &Put, original: &Path, to: &Path) -> Result<(), FaultError> {
    match put {
        Put::Nothing => Ok(()),
        Put::File { content, mode } => Ok(disk::write(to, content, *mode)?),
        Put::Hung => hung::make(to),
        Put::HungFolder => hung::make_folder(original, to),
    }
}

/// Puts back below `base` what was taken, and wakes who hangs on what was put there.
fn put_back(root: &Path, base: &Path, changed: &Changed) -> Result<(), FaultError> {
    disk::check_parents(base, &changed.path)?;
    let (path, folder) = (base.join(&changed.path), taken(root, &changed.path));
    let taken = folder.join(&changed.path);
    match (changed.was_there, disk::is_there(&taken), disk::is_there(&path)) {
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
        (false, ..) if matches!(changed.put, Put::File { .. }) => {
            disk::remove_file(&path)?;
            disk::remove_empty_parents(base, &changed.path)?;
        }
        // Nothing was there to take and nothing was put.
        (false, ..) => {}
    }
    Ok(disk::remove_folder(&folder)?)
}

fn remove(path: &Path) -> Result<(), FaultError> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { disk::remove_folder(path) } else { disk::remove_file(path) };
    Ok(removed?)
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
        exchanged => exchanged.map_err(|reason| FaultError::io("change", path)(reason.into())),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), FaultError> {
    fs::rename(from, to).map_err(FaultError::io("change", from))
}

fn make_parent(path: &Path) -> Result<(), FaultError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(FaultError::io("make", folder))
}
