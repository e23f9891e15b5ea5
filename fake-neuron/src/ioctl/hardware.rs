//! What the driver knows of its host, from the machine's description: read once, never changed. Called by [`super::driver`].

use neuron_core::catalog::Generation;
use neuron_core::driver::{Drivers, Platform};

use crate::machine::description::Description;
use crate::machine::pci::{Place, places};

/// A host's hardware, as its driver sees it.
#[derive(Clone, Debug)]
pub(crate) struct Hardware {
    pub(crate) generation: Generation,
    /// 1 to 4 (docs/reference/neuron.md §1.4).
    pub(crate) architecture: u32,
    /// Of the PCI device; 240 and 255 would mean an emulator. What hardware says is not known: 0.
    pub(crate) revision: u32,
    /// Newest and oldest version of the runtime that the driver serves.
    pub(crate) compatible: (u32, u32),
    /// Physical.
    pub(crate) cores_per_device: u8,
    /// As the driver shows them, by device id.
    pub(crate) links: Vec<Vec<u8>>,
    /// By device id.
    pub(crate) places: Vec<Place>,
    /// By device id (docs/reference/neuron.md §2).
    pub(crate) routing_ids: Vec<u32>,
    /// How the host is joined to others (docs/reference/neuron.md §1.2).
    pub(crate) platform: Platform,
}

impl Hardware {
    pub(crate) fn of(description: &Description) -> Hardware {
        let generation = description.generation;
        let (architecture, compatible) = match generation {
            Generation::Inf1 => (1, (7, 2)),
            Generation::Inf2 | Generation::Trn1 => (2, (7, 5)),
            Generation::Trn2 => (3, (11, 10)),
            // The driver takes Trn2's versions for Trn3.
            Generation::Trn3 => (4, (11, 10)),
        };
        let devices = description.device_count();
        Hardware {
            generation,
            architecture,
            revision: 0,
            compatible,
            cores_per_device: description.cores_per_device,
            links: description.driver_links.clone(),
            places: places(&description.instance_type, devices),
            routing_ids: routing_ids(generation, devices),
            platform: Drivers::embedded().platform(&description.instance_type),
        }
    }

    pub(crate) fn devices(&self) -> u8 {
        u8::try_from(self.links.len()).unwrap_or(u8::MAX)
    }
}

/// The routing id of each device. Trn1 and Trn2 number the corners of their torus otherwise than they route; all others are the same.
/// A Trn3 host's place among others would be added; it is 0 here.
fn routing_ids(generation: Generation, devices: u8) -> Vec<u32> {
    const TRN1: [u8; 16] = [0, 4, 1, 5, 3, 7, 2, 6, 12, 8, 13, 9, 15, 11, 14, 10];
    const TRN2: [u8; 16] = [0, 3, 4, 7, 12, 15, 8, 11, 1, 2, 5, 6, 13, 14, 9, 10];
    let mut ids: Vec<u32> = (0..u32::from(devices)).collect();
    let devices_by_routing_id = match generation {
        Generation::Trn1 => &TRN1,
        Generation::Trn2 => &TRN2,
        Generation::Inf1 | Generation::Inf2 | Generation::Trn3 => return ids,
    };
    for (routing_id, device) in (0..).zip(devices_by_routing_id) {
        if let Some(id) = ids.get_mut(usize::from(*device))
            && routing_id < u32::from(devices)
        {
            *id = routing_id;
        }
    }
    ids
}
