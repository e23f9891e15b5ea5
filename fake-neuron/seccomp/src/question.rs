//! The other end: asks the driver behind an open `/dev/neuronN` what a program that discovers devices asks, and reserves cores as one
//! that computes does. Called by `neuron-workload`, whose report says what its container was answered.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A discovery ioctl of the Neuron driver (docs/reference/neuron.md §4.2) whose structure holds no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Architecture, revision, connected devices, BARs; answered to who has opened the device for use.
    DeviceInfo,
    /// PCI address of the opened device.
    PciAddress,
    /// The opened device's id on the host; answered to who has opened it for use.
    HostDeviceId,
}

impl Question {
    /// The command, and the bytes of its structure.
    fn command(self) -> (u32, usize) {
        match self {
            Question::DeviceInfo => (0x8008_4e03, 80),
            Question::PciAddress => (0x8008_4e6a, 16),
            Question::HostDeviceId => (0x8004_4e72, 4),
        }
    }
}

/// The structure that the driver answers with.
///
/// # Errors
/// The driver's or the kernel's refusal.
pub fn ask(file: BorrowedFd<'_>, question: Question) -> io::Result<Vec<u8>> {
    /// More than any structure of the driver, of whatever version.
    const ROOM: usize = 4096;
    let (command, size) = question.command();
    let mut structure = vec![0_u8; ROOM];
    // SAFETY: the argument is the address of `ROOM` bytes that live until the call returns, and of these commands the driver writes
    // `size` bytes there and keeps no address.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), libc::Ioctl::from(command), structure.as_mut_ptr()) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    structure.truncate(size);
    Ok(structure)
}

/// Reserves all of these cores, which are physical and count from the opened device's first one, for this process until it ends; who has
/// opened the device with `O_WRONLY` gives them back by closing it.
///
/// # Errors
/// `EBUSY`: another process holds one of them; `EINVAL`: there are no such cores; `ENOTTY` where no driver is behind the file.
pub fn reserve(file: BorrowedFd<'_>, cores: RangeInclusive<u32>) -> io::Result<()> {
    const COMMAND: u32 = 0x4008_4e55;
    /// How many cores, the first and the last of those that are looked at, the longest run that was free, and a map of those reserved.
    #[repr(C)]
    struct Range {
        count: u32,
        first: u32,
        last: u32,
        longest: u32,
        reserved: u64,
    }
    let (first, last) = cores.into_inner();
    let count = last.saturating_sub(first).saturating_add(1);
    let mut range = Range { count, first, last, longest: 0, reserved: 0 };
    // SAFETY: the argument is the address of the structure that the driver reads and writes for this command; it lives until the call
    // returns, and the driver keeps no address.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), libc::Ioctl::from(COMMAND), &raw mut range) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
