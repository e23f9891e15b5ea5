//! The keys that order placements (docs/architecture.md §4, "Choice"), and lower bounds of them for a placement that
//! is only begun. Read by the searches.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::free_sets::FreeSet;
use super::plan::{Amount, Plan};
use super::problem::Move;
use crate::ids::{CoreSet, DeviceSet};
use crate::names::Resource;
use crate::occupancy::Occupancy;

/// How many devices ahead the bound of key 5 looks: at most 16 x 15 x 14 / 6 sets on real types.
const MOST_LOOKED_AHEAD: u32 = 3;

/// How good a placement is; of two on one node the smaller is better.
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
    /// (5) Free candidate sets of devices that lose a device, one number for each count above 1 that has candidate
    /// sets, from the largest count down.
    pub free_sets_hit: Vec<u32>,
    /// (6) Container by container in the request's order: its device ids, then its core ids.
    pub ids: Vec<u8>,
}

/// What the steps placed so far take together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartialPlacement {
    /// Cores taken under either name.
    pub(super) hardware: CoreSet,
    /// Cores taken as cores.
    cores: CoreSet,
    /// Devices with a core taken as a core.
    entered: DeviceSet,
    /// Devices taken as devices.
    whole: DeviceSet,
    mid_device_starts: u32,
}

/// Keys 1 to 4, or lower bounds of them.
pub(super) type Bound = [u32; 4];

/// Computes the keys of placements on one node.
pub(super) struct Scorer {
    cores_per_device: u32,
    free: CoreSet,
    free_devices: DeviceSet,
    free_on_partly_used: CoreSet,
    /// Number of free cores; index is the device id.
    free_by_device: Vec<u32>,
    /// Free candidate sets of devices for each count above 1, from the largest count down.
    free_sets: Vec<Vec<DeviceSet>>,
    /// Key 5 by the free devices touched and how many more will be.
    hits: FxHashMap<(DeviceSet, u32), Rc<[u32]>>,
}

impl PartialPlacement {
    /// All steps of the plan, each with the set of its move.
    pub(super) fn of(plan: &Plan, moves: &[Move]) -> PartialPlacement {
        let steps = plan.steps.iter().zip(moves);
        steps.fold(PartialPlacement::default(), |placed, (step, made)| placed.with(step.resource, &made.set))
    }

    /// Devices touched under either name.
    pub(super) fn devices(&self) -> DeviceSet {
        self.entered.union(self.whole)
    }

    /// This and one more set.
    pub(super) fn with(mut self, resource: Resource, set: &FreeSet) -> PartialPlacement {
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
    /// Keys for a node whose free hardware is as before the pod.
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
            cores_per_device: u32::from(topology.cores_per_device()),
            free,
            free_devices,
            free_on_partly_used: free.difference(topology.cores_of(free_devices)),
            free_by_device: (0..topology.devices()).map(on).collect(),
            free_sets: free_sets.collect(),
            hits: FxHashMap::default(),
        }
    }

    /// Keys 1 to 4 of a placement that has `left` still to place: exact when nothing is left, else lower bounds of
    /// every continuation.
    pub(super) fn bound(&self, placed: &PartialPlacement, left: Amount) -> Bound {
        let devices_for = |cores: u32| cores.div_ceil(self.cores_per_device);
        let whole = placed.entered.intersection(self.free_devices);
        let free_in = |devices: DeviceSet| -> u32 {
            devices.iter().map(|device| self.free_by_device[usize::from(device)]).sum()
        };
        let fresh = placed.cores.intersection(self.free).len();
        let free_on_entered = free_in(placed.entered).saturating_sub(fresh);
        let free_without_another_whole =
            (self.free_on_partly_used.len() + whole.len() * self.cores_per_device).saturating_sub(fresh);
        let left_over = free_in(placed.entered.difference(whole))
            .saturating_sub(placed.cores.intersection(self.free_on_partly_used).len());
        let entered_later = devices_for(left.cores.saturating_sub(free_on_entered));
        // A set that starts at the first core of an entered device does not start mid-device, and only one set can.
        let still_free = self.free.difference(placed.hardware);
        let first_is_free = |device: &u8| still_free.contains(device * self.cores_per_device as u8);
        let starts = entered_later + placed.entered.iter().filter(first_is_free).count() as u32;
        [
            whole.len() + devices_for(left.cores.saturating_sub(free_without_another_whole)),
            placed.devices().len() + left.devices + entered_later,
            left_over.saturating_sub(left.cores),
            placed.mid_device_starts + left.core_sets.saturating_sub(starts),
        ]
    }

    /// The keys of what is placed, without its ids.
    pub(super) fn keys(&mut self, placed: &PartialPlacement) -> Keys {
        let [whole_devices_entered, devices_touched, cores_left_over, mid_device_starts] =
            self.bound(placed, Amount::default());
        Keys {
            whole_devices_entered,
            devices_touched,
            cores_left_over,
            mid_device_starts,
            free_sets_hit: self.hits(placed).to_vec(),
            ids: Vec::new(),
        }
    }

    /// The first of one step's sets that is best by keys 1 to 5 beside what is placed. With steps `left` to place, keys 1 to 4 are lower
    /// bounds.
    pub(super) fn best(
        &mut self,
        sets: impl Iterator<Item = FreeSet>,
        resource: Resource,
        placed: &PartialPlacement,
        left: Amount,
    ) -> Option<FreeSet> {
        let mut best: Option<(FreeSet, Bound, PartialPlacement)> = None;
        for set in sets {
            let with_set = placed.with(resource, &set);
            let bound = self.bound(&with_set, left);
            let is_better = best.is_none_or(|(_, best_bound, with_best)| {
                // Key 5 costs more than the others together, so it is asked of ties alone.
                bound < best_bound || (bound == best_bound && self.hits(&with_set) < self.hits(&with_best))
            });
            if is_better {
                best = Some((set, bound, with_set));
            }
        }
        best.map(|(set, ..)| set)
    }

    /// Key 5 of what is placed.
    pub(super) fn hits(&mut self, placed: &PartialPlacement) -> Rc<[u32]> {
        self.fewest_hits(self.free_touched(placed), 0)
    }

    /// A lower bound of key 5 for placements that begin like this and touch `in_the_end` wholly free devices.
    pub(super) fn hits_in_the_end(&mut self, placed: &PartialPlacement, in_the_end: u32) -> Rc<[u32]> {
        let touched = self.free_touched(placed);
        let more = in_the_end.saturating_sub(touched.len());
        // The exact bound for more devices costs more than it saves; what is touched so far is a bound, too.
        self.fewest_hits(touched, if more <= MOST_LOOKED_AHEAD { more } else { 0 })
    }

    fn free_touched(&self, placed: &PartialPlacement) -> DeviceSet {
        placed.devices().intersection(self.free_devices)
    }

    /// The least key 5 of `touched` with any `more` other free devices.
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
