//! The structures that the driver fills, byte for byte (docs/reference/neuron.md §4.2). Pure: called by [`super::driver`].

use super::hardware::Hardware;
use super::layout::Layout;
use crate::machine::pci::PciAddress;

/// Everything that the public driver of 2.24 says it can do: bits 0 to 7.
const FEATURES: u64 = 0xff;
/// Size of BAR 0. The real one is not known: made up.
const BAR_BYTES: u64 = 64 << 20;
/// Where the kernel mapped BAR 0 of device 0. The real one differs at each start: made up.
const BAR_ADDRESS: u64 = 0xffff_c900_0000_0000;

pub(crate) fn basic_info(hardware: &Hardware) -> Vec<u8> {
    start(hardware).sized(8)
}

pub(crate) fn driver_info(hardware: &Hardware) -> Vec<u8> {
    const VERSION: u32 = 0;
    const SIZE: u32 = 24;
    start(hardware).u32(VERSION).u32(SIZE).u64(FEATURES).sized(24)
}

/// Of a device (0 to 63) that is linked to these. Only Inf1 uses a second BAR.
pub(crate) fn device_info(hardware: &Hardware, device: u8, links: &[u8]) -> Vec<u8> {
    const MOST: usize = 8;
    let links = &links[..links.len().min(MOST)];
    let padding = std::iter::repeat_n(0, MOST - links.len());
    let address = BAR_ADDRESS + u64::from(device) * 2 * BAR_BYTES;
    let second = if hardware.architecture == 1 { (address + BAR_BYTES, BAR_BYTES) } else { (0, 0) };
    start(hardware)
        .u32(u32::try_from(links.len()).unwrap_or_default())
        .u32s(links.iter().map(|id| u32::from(*id)).chain(padding))
        .u64s([address, second.0, BAR_BYTES, second.1])
        .sized(80)
}

pub(crate) fn compatible_version(hardware: &Hardware) -> Vec<u8> {
    let (newest, oldest) = hardware.compatible;
    Layout::default().u32(newest).u32(oldest).sized(8)
}

pub(crate) fn bdf(address: PciAddress) -> Vec<u8> {
    Layout::default().u32(u32::from(address.bus)).u8(address.slot).u8(address.function).sized(8)
}

/// `index` is what the caller asked for.
pub(crate) fn bdf_ext(index: u32, address: PciAddress) -> Vec<u8> {
    let start = Layout::default().u32(index).u32(address.domain).u32(u32::from(address.bus));
    start.u8(address.slot).u8(address.function).sized(16)
}

pub(crate) fn host_device_id(device: u8) -> Vec<u8> {
    u32::from(device).to_le_bytes().to_vec()
}

pub(crate) fn routing_id_map(hardware: &Hardware) -> Vec<u8> {
    Layout::default().u32(u32::from(hardware.devices())).u32s(hardware.routing_ids.iter().copied()).sized(260)
}

/// `pids` are those that have the device open for use. What each holds of models and memory is 0: nothing runs here.
pub(crate) fn all_apps_info(flags: u16, capacity: u32, pids: &[u32]) -> Vec<u8> {
    let size = u32::try_from(pids.len()).unwrap_or_default();
    let start = Layout::default().u16(flags).u32(capacity).u32(size).zeros(4);
    pids.iter().fold(start, |list, pid| list.u32(*pid).zeros(148)).sized(16 + 152 * pids.len())
}

/// The first `entries` entries of the map, in room for `room` of them.
pub(crate) fn core_map(entries: &[(u32, u32)], room: u32) -> Vec<u8> {
    let start = Layout::default().u32(u32::try_from(entries.len()).unwrap_or_default());
    let size = 4 + 8 * usize::try_from(room).unwrap_or_default();
    start.u32s(entries.iter().flat_map(|(device, core)| [*device, *core])).sized(size)
}

fn start(hardware: &Hardware) -> Layout {
    Layout::default().u32(hardware.architecture).u32(hardware.revision)
}
