//! The candidate sets of every count: the rules of docs/architecture.md §4. Called once for each [`Topology`]; the
//! lists are indexed by count and ascend by sorted ids.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::{Policy, Topology};
use crate::catalog::{Generation, InstanceType, SetRule};
use crate::ids::{CoreSet, DeviceSet};

/// The connected sets of more devices are too many to list; no real type has more.
const MAX_LISTED: u8 = 16;

/// Sets of devices of a type in the catalog.
pub(super) fn of_type(topology: &Topology, t: &InstanceType, policy: Policy) -> Vec<Vec<DeviceSet>> {
    if policy == Policy::Linked && topology.devices() <= MAX_LISTED {
        let mut counts = t.device_counts.clone();
        if t.generation == Generation::Trn2 {
            // The documented rule leaves out two linked devices, which the runtime takes
            // (docs/reference/neuron.md §3.2).
            counts.push(2);
        }
        return finish(topology, connected(topology), |count| counts.contains(&count));
    }
    let sets = match t.device_sets {
        SetRule::One | SetRule::Whole => by_count(topology, |_, _| false),
        SetRule::Run => by_count(topology, |_, set| topology.is_connected(set)),
        SetRule::Rows => by_count(topology, |first, set| u32::from(first).is_multiple_of(set.len())),
    };
    finish(topology, sets, |count| t.device_counts.contains(&count))
}

/// Sets of devices of a type that only its node's report describes.
pub(super) fn of_report(topology: &Topology) -> Vec<Vec<DeviceSet>> {
    finish(topology, by_count(topology, |_, set| topology.is_connected(set)), |_| true)
}

/// Sets of cores: runs inside one device; of more cores runs over linked devices (only with `long_runs`) and whole
/// devices.
pub(super) fn of_cores(
    topology: &Topology,
    device_sets: &[Vec<DeviceSet>],
    long_runs: bool,
) -> Vec<Vec<CoreSet>> {
    let size = topology.cores_per_device();
    let mut sets = vec![Vec::new(); usize::from(topology.cores()) + 1];
    let longest = if long_runs { topology.cores() } else { size };
    for count in 1..=longest {
        for first in 0..=topology.cores() - count {
            let run = CoreSet::run(first, count);
            let devices = topology.devices_of(run);
            let is_candidate =
                if count <= size { devices.len() == 1 } else { topology.is_connected(devices) };
            if is_candidate {
                sets[usize::from(count)].push(run);
            }
        }
    }
    for devices in device_sets.iter().flatten().filter(|devices| devices.len() > 1) {
        let cores = topology.cores_of(*devices);
        if is_run(cores) {
            sets[cores.len() as usize].push(cores);
        }
    }
    for list in &mut sets {
        list.sort_by_key(|set: &CoreSet| Reverse(set.bits().reverse_bits()));
        // All cores of linked devices were found twice: as a run and as whole devices.
        list.dedup();
    }
    sets
}

/// Runs of consecutive ids of every count above 1 that `is_candidate` takes, given the run's first id.
fn by_count(topology: &Topology, is_candidate: impl Fn(u8, DeviceSet) -> bool) -> Vec<Vec<DeviceSet>> {
    let devices = topology.devices();
    let mut sets = vec![Vec::new(); usize::from(devices) + 1];
    for count in 2..=devices {
        let runs = (0..=devices - count).map(|first| (first, DeviceSet::run(first, count)));
        sets[usize::from(count)] =
            runs.filter(|(first, set)| is_candidate(*first, *set)).map(|(_, set)| set).collect();
    }
    sets
}

/// Every linked set of every count: one of `count` devices is one of `count - 1` and a device linked to it.
fn connected(topology: &Topology) -> Vec<Vec<DeviceSet>> {
    let singles = topology.all_devices().iter().map(DeviceSet::single).collect();
    let mut sets: Vec<Vec<DeviceSet>> = vec![Vec::new(), singles];
    for count in 2..=usize::from(topology.devices()) {
        let mut larger = BTreeSet::new();
        for set in &sets[count - 1] {
            let reach =
                set.iter().fold(DeviceSet::EMPTY, |reach, device| reach.union(topology.links(device)));
            larger.extend(reach.difference(*set).iter().map(|id| set.union(DeviceSet::single(id)).bits()));
        }
        sets.push(larger.into_iter().map(DeviceSet::from_bits).collect());
    }
    sets
}

/// Keeps the supported counts, adds one device and all devices, which every type supports, and sorts.
fn finish(
    topology: &Topology,
    mut sets: Vec<Vec<DeviceSet>>,
    is_supported: impl Fn(u8) -> bool,
) -> Vec<Vec<DeviceSet>> {
    for (count, list) in sets.iter_mut().enumerate() {
        if !is_supported(count as u8) {
            list.clear();
        }
        // The first of two equally large sets, by sorted ids, is the one with the lowest id that they do not share.
        list.sort_by_key(|set| Reverse(set.bits().reverse_bits()));
    }
    sets[usize::from(topology.devices())] = vec![topology.all_devices()];
    sets[1] = topology.all_devices().iter().map(DeviceSet::single).collect();
    sets
}

fn is_run(cores: CoreSet) -> bool {
    cores.first().is_some_and(|first| cores == CoreSet::run(first, cores.len() as u8))
}
