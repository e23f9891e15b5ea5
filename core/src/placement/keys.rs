//! The keys that order placements (architecture §4, "Choice"), and lower bounds of them for a placement
//! that is only begun. Read by the searches; [`Keys`] also orders nodes.

use std::collections::HashMap;
use std::rc::Rc;

use super::free_sets::Candidate;
use super::plan::Amount;
use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;
use crate::occupancy::Occupancy;

/// How many devices ahead the bound of key 5 looks: at most 16 x 15 x 14 / 6 sets on real types.
const MOST_LOOKED_AHEAD: u32 = 3;

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
    /// By the free devices touched and how many more will be.
    hits: HashMap<(DeviceSet, u32), Rc<[u32]>>,
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
        let entered_later = devices_for(left.cores.saturating_sub(room_entered));
        // Only the first core of an entered device is no mid-device start, and only once.
        let open = self.free.difference(tally.hardware);
        let first_is_open = |device: &u8| open.contains(device * self.width as u8);
        let starts = entered_later + tally.entered.iter().filter(first_is_open).count() as u32;
        [
            whole.len() + devices_for(left.cores.saturating_sub(room_without_whole)),
            tally.entered.union(tally.whole).len() + left.devices + entered_later,
            left_over.saturating_sub(left.cores),
            tally.mid_device_starts + left.core_sets.saturating_sub(starts),
        ]
    }

    /// Key 5 of what is given.
    pub(super) fn hits(&mut self, tally: &Tally) -> Rc<[u32]> {
        self.fewest_hits(self.free_touched(tally), 0)
    }

    /// A lower bound of key 5 for what is given so far, once `in_the_end` wholly free devices are touched.
    pub(super) fn hits_in_the_end(&mut self, tally: &Tally, in_the_end: u32) -> Rc<[u32]> {
        let touched = self.free_touched(tally);
        let more = in_the_end.saturating_sub(touched.len());
        // Beyond a few devices the exact bound costs more than it saves; what is touched now bounds as well.
        self.fewest_hits(touched, if more <= MOST_LOOKED_AHEAD { more } else { 0 })
    }

    fn free_touched(&self, tally: &Tally) -> DeviceSet {
        tally.entered.union(tally.whole).intersection(self.free_devices)
    }

    /// The least key 5 of `touched` and any `more` free devices.
    fn fewest_hits(&mut self, touched: DeviceSet, more: u32) -> Rc<[u32]> {
        if let Some(known) = self.hits.get(&(touched, more)) {
            return Rc::clone(known);
        }
        let others = if more == 0 { DeviceSet::EMPTY } else { self.free_devices.difference(touched) };
        let with = |device| touched.union(DeviceSet::single(device));
        let fewest = others.iter().map(|device| self.fewest_hits(with(device), more - 1)).min();
        let fewest = fewest.unwrap_or_else(|| {
            let hit = |sets: &Vec<DeviceSet>| sets.iter().filter(|set| set.intersects(touched)).count();
            self.free_sets.iter().map(|sets| hit(sets) as u32).collect()
        });
        self.hits.insert((touched, more), Rc::clone(&fewest));
        fewest
    }
}
