//! Runs of consecutive free cores: what can still be placed depends on their lengths. The depth-first search skips
//! with them what cannot succeed, and what it has met before under other ids.

use super::plan::Step;
use crate::ids::CoreSet;
use crate::names::Resource;
use crate::topology::Topology;

/// A core count still to be placed, and how many steps still request at least that many.
pub(super) type Demand = (u32, u32);

/// The demands of steps that take only fresh cores. Steps that fit into one device are counted apart: a longer run
/// may lie across devices so that it leaves room for no shorter one inside any.
pub(super) fn demands<'a>(steps: impl Iterator<Item = &'a Step>, cores_per_device: u32) -> Vec<Demand> {
    let takes_fresh_cores = |step: &&Step| step.resource == Resource::Core && step.handed_down == 0;
    let mut counts: Vec<u32> = steps.filter(takes_fresh_cores).map(|step| step.count).collect();
    counts.sort_unstable();
    let mut demands: Vec<Demand> = Vec::new();
    for class in counts.chunk_by(|one, other| (*one <= cores_per_device) == (*other <= cores_per_device)) {
        let mut rest = class;
        while let Some(&least) = rest.first() {
            demands.push((least, rest.len() as u32));
            rest = &rest[rest.partition_point(|count| *count == least)..];
        }
    }
    demands
}

/// False only if the demands cannot be met: every core set is a run, inside one device if it fits there.
pub(super) fn may_meet(topology: &Topology, free: CoreSet, demands: &[Demand]) -> bool {
    let cores_per_device = topology.cores_per_device();
    demands.iter().all(|&(count, steps)| {
        let within = if count <= u32::from(cores_per_device) { cores_per_device } else { topology.cores() };
        runs(free, within).map(|(_, length)| u32::from(length) / count).sum::<u32>() >= steps
    })
}

/// Lengths of the free runs inside devices, ascending: all that matters where only sets inside one device are still
/// to be placed and any will do.
pub(super) fn lengths(topology: &Topology, free: CoreSet) -> Vec<u8> {
    let mut lengths: Vec<u8> = runs(free, topology.cores_per_device()).map(|(_, length)| length).collect();
    lengths.sort_unstable();
    lengths
}

/// The maximal runs as first core and length; none crosses a multiple of `within`.
fn runs(free: CoreSet, within: u8) -> impl Iterator<Item = (u8, u8)> {
    let mut rest = free.bits();
    std::iter::from_fn(move || {
        if rest == 0 {
            return None;
        }
        let first = rest.trailing_zeros() as u8;
        let length = ((rest >> first).trailing_ones() as u8).min(within - first % within);
        rest &= !CoreSet::run(first, length).bits();
        Some((first, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::topology::Policy;

    fn step(resource: Resource, count: u32, handed_down: u32) -> Step {
        Step { container: 0, resource, count, handed_down, keeps: true, chain: 0 }
    }

    #[test]
    fn demands_count_the_steps_that_take_as_many_fresh_cores() {
        let core = |count| step(Resource::Core, count, 0);
        let steps = [core(3), core(1), core(3), core(9), core(4), core(5)];
        assert_eq!(demands(steps.iter(), 4), [(1, 4), (3, 3), (4, 1), (5, 2), (9, 1)]);
        // Devices are no runs of cores, and handed-down cores need not be a run of free ones.
        let others = [step(Resource::Device, 2, 0), step(Resource::Core, 2, 2), step(Resource::Core, 3, 1)];
        assert_eq!(demands(others.iter(), 4), []);
    }

    #[test]
    fn demands_are_met_by_runs_inside_devices_or_across_them() {
        let topology = Topology::of(Catalog::embedded().find("inf1.6xlarge").unwrap(), 1, Policy::Documented);
        let meets = |free: &str, demands: &[Demand]| {
            may_meet(topology.as_ref().unwrap(), free.parse().unwrap(), demands)
        };
        // Three cores inside device 0, one in device 1.
        assert!(meets("1,2,3,4", &[(3, 1)]) && !meets("1,2,3,4", &[(4, 1)]));
        assert!(meets("1,2,3,4", &[(1, 4)]) && !meets("1,2,3,4", &[(1, 5)]));
        assert!(meets("1,2,3,4", &[(2, 1)]) && !meets("1,2,3,4", &[(2, 2)]));
        // More than a device has lies across devices.
        assert!(meets("1,2,3,4,5", &[(5, 1)]) && !meets("1,2,3,4,6,7", &[(5, 1)]));
        assert!(!meets("1,2,3,4,5", &[(3, 1), (5, 2)]));
    }

    #[test]
    fn lengths_are_those_inside_devices() {
        let topology = Topology::of(Catalog::embedded().find("inf1.6xlarge").unwrap(), 1, Policy::Documented);
        assert_eq!(lengths(&topology.unwrap(), "1,2,3,4,5,9".parse().unwrap()), [1, 2, 3]);
    }

    #[test]
    fn runs_end_at_devices() {
        let free: CoreSet = "1,2,3,4,5,9".parse().unwrap();
        assert_eq!(runs(free, 4).collect::<Vec<_>>(), [(1, 3), (4, 2), (9, 1)]);
        assert_eq!(runs(free, 16).collect::<Vec<_>>(), [(1, 5), (9, 1)]);
        assert_eq!(runs(CoreSet::run(0, 128), 128).collect::<Vec<_>>(), [(0, 128)]);
    }
}
