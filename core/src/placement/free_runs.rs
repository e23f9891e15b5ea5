//! Runs of open cores: what can still be placed depends on their lengths. The complete search skips with it
//! what cannot succeed, and what it has met before in another guise.

use super::plan::Step;
use crate::ids::CoreSet;
use crate::names::Resource;
use crate::topology::Topology;

/// A core count still asked for, and how many steps still ask for at least that many.
pub(super) type Demand = (u32, u32);

/// The demands of steps that take all of their cores afresh. Steps that fit a device of `width` cores are
/// counted apart: a longer run may lie across devices so that it fills no shorter one inside any.
pub(super) fn demands<'a>(steps: impl Iterator<Item = &'a Step>, width: u32) -> Vec<Demand> {
    let asks_cores = |step: &&Step| step.resource == Resource::Core && step.handed == 0;
    let mut counts: Vec<u32> = steps.filter(asks_cores).map(|step| step.count).collect();
    counts.sort_unstable();
    let mut demands: Vec<Demand> = Vec::new();
    for class in counts.chunk_by(|one, other| (*one <= width) == (*other <= width)) {
        let mut rest = class;
        while let Some(&least) = rest.first() {
            demands.push((least, rest.len() as u32));
            rest = &rest[rest.partition_point(|count| *count == least)..];
        }
    }
    demands
}

/// False only if the demands cannot be met: every core set is a run, one within a device if it fits there.
pub(super) fn may_hold(topology: &Topology, open: CoreSet, demands: &[Demand]) -> bool {
    let width = topology.cores_per_device();
    demands.iter().all(|&(count, steps)| {
        let within = if count <= u32::from(width) { width } else { topology.cores() };
        runs(open, within).map(|(_, length)| u32::from(length) / count).sum::<u32>() >= steps
    })
}

/// Lengths of the open runs inside devices, ascending: all that matters where only sets inside one device
/// are still to come and any will do.
pub(super) fn lengths(topology: &Topology, open: CoreSet) -> Vec<u8> {
    let mut lengths: Vec<u8> = runs(open, topology.cores_per_device()).map(|(_, length)| length).collect();
    lengths.sort_unstable();
    lengths
}

/// The maximal runs as first core and length; none crosses a multiple of `within`.
fn runs(open: CoreSet, within: u8) -> impl Iterator<Item = (u8, u8)> {
    let mut rest = open.bits();
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
        let open: CoreSet = "1,2,3,4,5,9".parse().unwrap();
        assert_eq!(runs(open, 4).collect::<Vec<_>>(), [(1, 3), (4, 2), (9, 1)]);
        assert_eq!(runs(open, 16).collect::<Vec<_>>(), [(1, 5), (9, 1)]);
        assert_eq!(runs(CoreSet::run(0, 128), 128).collect::<Vec<_>>(), [(0, 128)]);
    }
}
