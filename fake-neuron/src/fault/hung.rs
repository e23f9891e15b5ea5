//! Files whose reads hang: FIFOs without a writer. Made and woken by [`super::on_disk`].

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::FaultError;

/// What the kernel itself answers for each device, whatever the driver does.
pub(super) const KERNELS_OWN: [&str; 3] = ["dev", "uevent", "power"];

/// Makes a FIFO that stands for a file: whoever opens it to read waits.
///
/// # Errors
/// The file system's refusal.
pub(crate) fn make(path: &Path) -> Result<(), FaultError> {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).map_err(|reason| FaultError::Io {
        action: "make",
        path: path.to_owned(),
        reason: reason.into(),
    })
}

/// Makes `to` like the device's folder `from`, with FIFOs in place of the driver's files.
///
/// # Errors
/// The file system's refusal.
pub(crate) fn make_folder(from: &Path, to: &Path) -> Result<(), FaultError> {
    fill(from, to, &KERNELS_OWN)
}

/// As [`make_folder`], where the entries of these names are the kernel's own.
fn fill(from: &Path, to: &Path, kernels_own: &[&str]) -> Result<(), FaultError> {
    let io = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |reason| FaultError::Io { action, path, reason }
    };
    fs::create_dir(to).map_err(io("make", to))?;
    for (name, source) in children(from)? {
        let target = to.join(&name);
        let kind = source.symlink_metadata().map_err(io("read", &source))?.file_type();
        let is_kernels = kernels_own.iter().any(|own| name == *own);
        if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(io("read", &source))?;
            symlink(link, &target).map_err(io("link", &target))?;
        } else if kind.is_dir() && is_kernels {
            fs::create_dir(&target).map_err(io("make", &target))?;
            for (name, file) in children(&source)? {
                fs::copy(&file, target.join(name)).map_err(io("copy", &file))?;
            }
        } else if kind.is_dir() {
            // Names of the driver's own folders mean nothing: `stats/power` is one.
            fill(&source, &target, &[])?;
        } else if is_kernels {
            fs::copy(&source, &target).map_err(io("copy", &source))?;
        } else {
            make(&target)?;
        }
    }
    Ok(())
}

/// Lets go whoever hangs on a FIFO at or below `hung`, which no longer stands at its place. One reader of each gets what the file
/// at the same place at or below `restored` holds, any other reads an empty file, and so do all where no file is there.
pub(crate) fn wake(hung: &Path, restored: &Path) {
    let Ok(metadata) = hung.symlink_metadata() else { return };
    if metadata.is_dir() {
        for (name, inner) in children(hung).unwrap_or_default() {
            wake(&inner, &restored.join(name));
        }
    } else if metadata.file_type().is_fifo() {
        let mut options = OpenOptions::new();
        // Without a reader this fails, and there is nobody to wake.
        let opened = options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(hung);
        // It may hang for another fault's sake.
        let answers = restored.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        let content = if answers { fs::read(restored).unwrap_or_default() } else { Vec::new() };
        if let Ok(mut fifo) = opened {
            let _ = fifo.write_all(&content);
        }
    }
}

fn children(folder: &Path) -> Result<Vec<(std::ffi::OsString, PathBuf)>, FaultError> {
    let refused = |reason| FaultError::Io { action: "read", path: folder.to_owned(), reason };
    let entries = fs::read_dir(folder).map_err(refused)?;
    entries.map(|entry| entry.map(|entry| (entry.file_name(), entry.path())).map_err(refused)).collect()
}
