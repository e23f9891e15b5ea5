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

    #[test]
    fn runs_end_at_devices() {
        let free: CoreSet = "1,2,3,4,5,9".parse().unwrap();
        assert_eq!(runs(free, 4).collect::<Vec<_>>(), [(1, 3), (4, 2), (9, 1)]);
        assert_eq!(runs(free, 16).collect::<Vec<_>>(), [(1, 5), (9, 1)]);
        assert_eq!(runs(CoreSet::run(0, 128), 128).collect::<Vec<_>>(), [(0, 128)]);
    }
}
