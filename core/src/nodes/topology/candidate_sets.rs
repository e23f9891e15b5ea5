//! The allowed sets of every count: placement rules of docs/architecture.md. Called once for each
//! [`Topology`]; what comes out is indexed by count and ascends by sorted ids.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{Policy, Topology};
use crate::catalog::{Generation, InstanceType, SetRule};
use crate::ids::{CoreSet, DeviceSet};

/// Above this many devices the connected sets are too many to list; no real type has more.
const MOST_LISTED: u8 = 16;

/// Device sets of a type whose shape is known.
pub(super) fn of_type(shape: &Topology, t: &InstanceType, policy: Policy) -> Vec<Vec<DeviceSet>> {
    if policy == Policy::Linked && shape.devices() <= MOST_LISTED {
        let mut counts = t.device_counts.clone();
        if t.generation == Generation::Trn2 {
            // The runtime takes two linked devices, which the documented rule leaves out (facts/neuron.md §3.2).
            counts.push(2);
        }
        return finish(shape, connected(shape), |count| counts.contains(&count));
    }
    let sets = match t.device_sets {
        SetRule::One | SetRule::Whole => by_count(shape, |_, _| false),
        SetRule::Run => by_count(shape, |_, set| shape.is_connected(set)),
        SetRule::Rows => by_count(shape, |first, set| u32::from(first).is_multiple_of(set.len())),
    };
    finish(shape, sets, |count| t.device_counts.contains(&count))
}

/// Device sets of a type that only its node's report describes.
pub(super) fn described(shape: &Topology) -> Vec<Vec<DeviceSet>> {
    finish(shape, by_count(shape, |_, set| shape.is_connected(set)), |_| true)
}

/// Core sets: inside one device; above that runs over linked neighbours (`long_runs`), or whole devices.
pub(super) fn of_cores(
    shape: &Topology,
    device_sets: &[Vec<DeviceSet>],
    long_runs: bool,
) -> Vec<Vec<CoreSet>> {
    let size = shape.cores_per_device();
    let mut sets = vec![Vec::new(); usize::from(shape.cores()) + 1];
    let longest = if long_runs { shape.cores() } else { size };
    for count in 1..=longest {
        for first in 0..=shape.cores() - count {
            let run = CoreSet::run(first, count);
            let devices = shape.devices_of(run);
            let allowed = if count <= size { devices.len() == 1 } else { shape.is_connected(devices) };
            if allowed {
                sets[usize::from(count)].push(run);
            }
        }
    }
    for devices in device_sets.iter().flatten().filter(|devices| devices.len() > 1) {
        let cores = shape.cores_of(*devices);
        if is_run(cores) {
            sets[cores.len() as usize].push(cores);
        }
    }
    for list in &mut sets {
        // What stands twice stands side by side: the last cores of two devices, once as a run, once as devices.
        list.sort_by_key(|set: &CoreSet| Reverse(set.bits().reverse_bits()));
        list.dedup();
    }
    sets
}

/// Runs of ids of every count above 1 that `allowed` takes, given the run's first id.
fn by_count(shape: &Topology, allowed: impl Fn(u8, DeviceSet) -> bool) -> Vec<Vec<DeviceSet>> {
    let devices = shape.devices();
    let mut sets = vec![Vec::new(); usize::from(devices) + 1];
    for count in 2..=devices {
        let runs = (0..=devices - count).map(|first| (first, DeviceSet::run(first, count)));
        sets[usize::from(count)] =
            runs.filter(|(first, set)| allowed(*first, *set)).map(|(_, set)| set).collect();
    }
    sets
}

/// Every linked set of every count: each one of `count` devices is one of `count - 1` and a neighbour.
fn connected(shape: &Topology) -> Vec<Vec<DeviceSet>> {
    let singles = shape.all_devices().iter().map(DeviceSet::single).collect();
    let mut sets: Vec<Vec<DeviceSet>> = vec![Vec::new(), singles];
    for count in 2..=usize::from(shape.devices()) {
        let mut larger = BTreeSet::new();
        for set in &sets[count - 1] {
            let reach = set.iter().fold(DeviceSet::EMPTY, |reach, device| reach.union(shape.links(device)));
            larger.extend(reach.difference(*set).iter().map(|id| set.union(DeviceSet::single(id)).bits()));
        }
        sets.push(larger.into_iter().map(DeviceSet::from_bits).collect());
    }
    sets
}

/// Keeps the counts that are allowed, adds one device and all devices, which always are, and sorts.
fn finish(
    shape: &Topology,
    mut sets: Vec<Vec<DeviceSet>>,
    allowed: impl Fn(u8) -> bool,
) -> Vec<Vec<DeviceSet>> {
    for (count, list) in sets.iter_mut().enumerate() {
        if !allowed(count as u8) {
            list.clear();
        }
        // Of two sets of one size the first by sorted ids is the one with the lowest id that they do not share.
        list.sort_by_key(|set| Reverse(set.bits().reverse_bits()));
    }
    sets[usize::from(shape.devices())] = vec![shape.all_devices()];
    sets[1] = shape.all_devices().iter().map(DeviceSet::single).collect();
    sets
}

fn is_run(cores: CoreSet) -> bool {
    cores.first().is_some_and(|first| cores == CoreSet::run(first, cores.len() as u8))
}
