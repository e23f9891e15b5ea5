//! Lets one call alone make or remove the machine under a root, whichever process it comes from. Called by [`crate::Machine`].

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::MachineError;

/// A root that nobody else may change until this is dropped. The lock is on the folder itself, so nothing is left in it, and the
/// kernel takes it back from a process that was killed.
#[derive(Debug)]
pub(super) struct Claim(File);

impl Claim {
    /// Claims the root, which is there.
    ///
    /// # Errors
    /// Another call is at work in it, or has removed it meanwhile.
    pub(super) fn of(root: &Path) -> Result<Claim, MachineError> {
        let at_work = || MachineError::AtWork { root: root.to_owned() };
        let io = || MachineError::io("open", root);
        let folder = File::open(root).map_err(io())?;
        match folder.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(at_work()),
            // Some file systems, such as NFS, lock no folders: there is none to keep others away with.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let ours = folder.metadata().map_err(io())?;
        let is_there =
            root.metadata().is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
        if is_there { Ok(Claim(folder)) } else { Err(at_work()) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing would not do: a program that is being started has a copy of the file for a moment. Where there was no lock there
        // is none to give back.
        let _ = self.0.unlock();
    }
}
