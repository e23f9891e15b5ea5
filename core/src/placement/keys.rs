//! The keys that order placements (architecture §4, "Choice"), and lower bounds of them for a placement
//! that is only begun. Read by the searches; [`Keys`] also orders nodes.

use std::collections::HashMap;
use std::rc::Rc;

use super::candidates::Candidate;
use super::plan::Amount;
use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;
use crate::occupancy::Occupancy;

/// How good a placement is; of two the smaller is better.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Keys {
    /// (1) Wholly free devices that core sets enter.
    pub whole_devices_entered: u32,
    /// (2) Devices touched under either name.
    pub devices_touched: u32,
    /// (3) Free cores left over on partly used devices that core sets enter.
    pub cores_left_over: u32,
    /// (4) Containers whose core set starts mid-device.
    pub mid_device_starts: u32,
    /// (5) Free allowed device sets hit, one number per allowed count above 1, from the largest count down.
    pub free_sets_hit: Vec<u32>,
    /// (6) Container by container in spec order: its device ids, then its core ids.
    pub ids: Vec<u8>,
}

/// The union of what was given so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Hardware under either name.
    pub(super) hardware: CoreSet,
    cores: CoreSet,
    entered: DeviceSet,
    whole: DeviceSet,
    mid_device_starts: u32,
}

/// Keys 1 to 4, or lower bounds of them.
pub(super) type Bound = [u32; 4];

/// Reckons keys on one node.
pub(super) struct Scorer {
    width: u32,
    free: CoreSet,
    free_devices: DeviceSet,
    free_on_partly_used: CoreSet,
    /// Per device: its free cores.
    free_by_device: Vec<u32>,
    /// Wholly free allowed device sets per count above 1, from the largest count down.
    free_sets: Vec<Vec<DeviceSet>>,
    hits: HashMap<DeviceSet, Rc<[u32]>>,
}

impl Tally {
    /// This and one more set.
    pub(super) fn with(mut self, resource: Resource, set: &Candidate) -> Tally {
        self.hardware = self.hardware.union(set.cores);
        match resource {
            Resource::Device => self.whole = self.whole.union(set.devices),
            Resource::Core => {
                self.cores = self.cores.union(set.cores);
                self.entered = self.entered.union(set.devices);
                self.mid_device_starts += u32::from(set.starts_mid_device);
            }
        }
        self
    }
}

impl Scorer {
    pub(super) fn new(occupancy: &Occupancy) -> Scorer {
        let topology = occupancy.topology();
        let (free, free_devices) = (occupancy.free_cores(), occupancy.free_devices());
        let on = |device| free.intersection(topology.cores_of(DeviceSet::single(device))).len();
        let counts = topology.device_counts().iter().rev().filter(|&&count| count > 1);
        let free_sets = counts.map(|&count| {
            let sets = topology.device_sets(u32::from(count)).iter();
            sets.copied().filter(|set| set.is_subset(free_devices)).collect()
        });
        Scorer {
            width: u32::from(topology.cores_per_device()),
            free,
            free_devices,
            free_on_partly_used: free.difference(topology.cores_of(free_devices)),
            free_by_device: (0..topology.devices()).map(on).collect(),
            free_sets: free_sets.collect(),
            hits: HashMap::new(),
        }
    }

    /// Keys 1 to 4 of a placement that has `left` still to take: exact when nothing is left, else what no
    /// continuation can fall below.
    pub(super) fn bound(&self, tally: &Tally, left: Amount) -> Bound {
        let devices_for = |cores: u32| cores.div_ceil(self.width);
        let whole = tally.entered.intersection(self.free_devices);
        let free_in = |devices: DeviceSet| -> u32 {
            devices.iter().map(|device| self.free_by_device[usize::from(device)]).sum()
        };
        let taken = tally.cores.intersection(self.free).len();
        let room_entered = free_in(tally.entered).saturating_sub(taken);
        let room_without_whole =
            (self.free_on_partly_used.len() + whole.len() * self.width).saturating_sub(taken);
        let left_over = free_in(tally.entered.difference(whole))
            .saturating_sub(tally.cores.intersection(self.free_on_partly_used).len());
        [
            whole.len() + devices_for(left.cores.saturating_sub(room_without_whole)),
            tally.entered.union(tally.whole).len()
                + left.devices
                + devices_for(left.cores.saturating_sub(room_entered)),
            left_over.saturating_sub(left.cores),
            tally.mid_device_starts,
        ]
    }

    /// Key 5 of what is given so far; it never falls when more is given.
    pub(super) fn hits(&mut self, tally: &Tally) -> Rc<[u32]> {
        let touched = tally.entered.union(tally.whole).intersection(self.free_devices);
        let free_sets = &self.free_sets;
        let reckon = || {
            let hit = |sets: &Vec<DeviceSet>| sets.iter().filter(|set| set.intersects(touched)).count();
            free_sets.iter().map(|sets| hit(sets) as u32).collect()
        };
        Rc::clone(self.hits.entry(touched).or_insert_with(reckon))
    }
}
