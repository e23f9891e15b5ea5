//! What `stat` and `statx` tell of a device node, where none could be made: a character device that everybody may read and write, with
//! the driver's numbers. Called by [`super::supervisor`].

use fake_neuron_seccomp::StatForm;
use rustix::fs::Stat;

use super::layout::Layout;
use crate::DRIVER_MAJOR;

/// A character device, mode 0666.
const MODE: u16 = 0o020_666;

/// The structure for the device (0 to 63) whose file is `file`: root's, of no size, with the file's inode and times.
pub(crate) fn of_device(form: StatForm, device: u8, file: &Stat) -> Vec<u8> {
    match form {
        StatForm::Stat => stat(device, file),
        StatForm::Statx => statx(device, file),
    }
}

#[cfg(target_arch = "x86_64")]
fn stat(device: u8, file: &Stat) -> Vec<u8> {
    let start = Layout::default().u64(file.st_dev).u64(file.st_ino).u64(1).u32(u32::from(MODE));
    let start = start.u32(0).u32(0).u64(rustix::fs::makedev(DRIVER_MAJOR, u32::from(device)));
    start.u64(0).u64(BLOCK.into()).u64(0).u64s(times(file)).sized(144)
}

#[cfg(target_arch = "aarch64")]
fn stat(device: u8, file: &Stat) -> Vec<u8> {
    let start = Layout::default().u64(file.st_dev).u64(file.st_ino).u32(u32::from(MODE)).u32(1);
    let start = start.u32(0).u32(0).u64(rustix::fs::makedev(DRIVER_MAJOR, u32::from(device))).u64(0);
    start.u64(0).u32(BLOCK).u64(0).u64s(times(file)).sized(128)
}

const BLOCK: u32 = 4096;

fn statx(device: u8, file: &Stat) -> Vec<u8> {
    /// Everything that `stat` tells too.
    const BASIC: u32 = 0x7ff;
    let [accessed, accessed_ns, modified, modified_ns, changed, changed_ns] = times(file);
    let start = Layout::default().u32(BASIC).u32(BLOCK).u64(0).u32(1).u32(0).u32(0).u16(MODE);
    let start = start.u64(file.st_ino).u64(0).u64(0).u64(0);
    // The time of birth is not told.
    let start = start.u64s([accessed, accessed_ns, 0, 0, changed, changed_ns, modified, modified_ns]);
    let (major, minor) = (rustix::fs::major(file.st_dev), rustix::fs::minor(file.st_dev));
    start.u32s([DRIVER_MAJOR, u32::from(device), major, minor]).sized(256)
}

/// Of access, change of the contents and change of the file: seconds and nanoseconds each.
fn times(file: &Stat) -> [u64; 6] {
    [
        file.st_atime.cast_unsigned(),
        file.st_atime_nsec,
        file.st_mtime.cast_unsigned(),
        file.st_mtime_nsec,
        file.st_ctime.cast_unsigned(),
        file.st_ctime_nsec,
    ]
}
