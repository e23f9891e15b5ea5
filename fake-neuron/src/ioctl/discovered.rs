//! What a program that discovers a device is answered, as values, for who has no processes to answer: a cluster in one process.

use super::hardware::Hardware;
use crate::Blueprint;
use crate::fault::Fault;
use crate::pci::PciAddress;

/// The answers of [`super::Command::DEVICE_INFO`], [`super::Command::DEVICE_BDF_EXT`] and [`super::Command::HOST_DEVICE_ID`] to who has
/// opened a device for use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    /// The device's id on the host, 0 to 63.
    pub host_id: u8,
    /// 1 to 4 (docs/reference/neuron.md §1.4).
    pub architecture: u32,
    /// Ids of the devices that it is linked to, in the driver's order; at most 8.
    pub links: Vec<u8>,
    /// PCI address.
    pub address: PciAddress,
}

/// What the driver answers of the device (0 to 63) while these faults are in force; none where there is no such device or no driver.
pub fn discover(machine: &Blueprint, device: u8, faults: &[Fault]) -> Option<Discovered> {
    const MOST_LINKS: usize = 8;
    let hardware = Hardware::of(machine.description());
    let is_gone =
        |fault: &Fault| *fault == Fault::DriverUnloaded {} || fault.takes_away(device, hardware.generation);
    if faults.iter().any(is_gone) {
        return None;
    }
    let place = usize::from(device);
    let mut links = hardware.links.get(place)?.clone();
    links.retain(|other| !faults.iter().any(|fault| fault.breaks_link(device, *other)));
    links.truncate(MOST_LINKS);
    Some(Discovered {
        host_id: device,
        architecture: hardware.architecture,
        links,
        address: hardware.places.get(place)?.address,
    })
}
