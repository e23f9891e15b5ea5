//! What the driver answers of a device by ioctl. Called by [`crate::container`].

use std::io;
use std::os::fd::AsFd;

use fake_neuron_seccomp::{Question, ask};

use crate::report::DriverAnswers;

/// The answers for the opened device at `path`.
///
/// # Errors
/// The driver's refusal: `ENOTTY` where no driver is behind the file.
pub(crate) fn answers(path: &str, device: impl AsFd) -> io::Result<DriverAnswers> {
    /// Connected devices in the structure, of which the count says how many are used.
    const MOST_LINKS: usize = 8;
    let info = ask(device.as_fd(), Question::DeviceInfo)?;
    let place = ask(device.as_fd(), Question::PciAddress)?;
    let id = ask(device.as_fd(), Question::HostDeviceId)?;
    // Architecture, revision, the number of links, the links.
    let links = usize::try_from(number(&info, 2)).unwrap_or(MOST_LINKS).min(MOST_LINKS);
    // The device asked for, domain, bus, then slot and function of a byte each.
    let (domain, bus, slot, function) = (number(&place, 1), number(&place, 2), place[12], place[13]);
    Ok(DriverAnswers {
        path: path.to_owned(),
        host_id: number(&id, 0),
        architecture: number(&info, 0),
        links: (0..links).map(|link| number(&info, 3 + link)).collect(),
        address: format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"),
    })
}

/// The 32-bit number at this place, counted in such numbers; 0 past the end.
fn number(structure: &[u8], place: usize) -> u32 {
    let bytes = structure.get(4 * place..4 * place + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_ne_bytes).unwrap_or_default()
}
