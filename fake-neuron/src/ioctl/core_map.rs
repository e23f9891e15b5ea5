//! Which physical core a logical one is on Trn2 and Trn3, as their driver swaps them (its public source, `ncdev_logical_to_physical_nc_map`).

use neuron_core::catalog::Generation;

/// The driver's map always has the cores of sixteen devices of eight, however many the host has.
pub(crate) const ENTRIES: u32 = 128;

const CORES_PER_DEVICE: u32 = 8;

/// The device and the core on it of the logical core `index` (0 to 127); none on generations without the map.
///
/// Trn2 has an order for each corner of its torus; Trn3, joined by switches, one for even and one for odd devices. Nothing is known of
/// Trn3 hosts with one device, which get the same.
pub(crate) fn physical_core(generation: Generation, index: u32) -> Option<(u32, u32)> {
    const ORDERS: [[u32; 8]; 4] = [
        [4, 5, 6, 7, 2, 3, 0, 1],
        [2, 3, 0, 1, 4, 5, 6, 7],
        [0, 1, 2, 3, 6, 7, 4, 5],
        [6, 7, 4, 5, 0, 1, 2, 3],
    ];
    let device = index / CORES_PER_DEVICE;
    let is_odd = device % 2 == 1;
    let order = match (generation, device / 4 % 2 == 1, is_odd) {
        (Generation::Trn2, false, false) | (Generation::Trn3, _, false) => ORDERS[0],
        (Generation::Trn2, false, true) => ORDERS[1],
        (Generation::Trn2, true, false) => ORDERS[2],
        (Generation::Trn2, true, true) | (Generation::Trn3, _, true) => ORDERS[3],
        (Generation::Inf1 | Generation::Inf2 | Generation::Trn1, ..) => return None,
    };
    let core = usize::try_from(index % CORES_PER_DEVICE).ok().and_then(|place| order.get(place))?;
    Some((device, *core))
}
