//! The ids that init containers hand down inside one pod, and whether every choice that kubelet may make among them
//! is a candidate set. kubelet picks among handed-down ids at random and asks no plugin (docs/reference/kubernetes.md
//! §2, §6).

use super::free_sets::FreeSets;
use crate::ids::CoreSet;

/// The hand-down set of one chain, as cores: all of `known` and any `unknown` ids of `pool`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct HandDown {
    known: CoreSet,
    pool: CoreSet,
    /// How many ids of `pool` are handed down; which ones kubelet chooses.
    unknown: u32,
    /// The whole set if kubelet always picks the lowest ids: what is recorded until its choice is known.
    provisional: CoreSet,
}

impl HandDown {
    /// The provisional set, which a container that needs more ids gets entirely.
    pub(super) fn provisional(&self) -> CoreSet {
        self.provisional
    }

    /// Whether it depends on a choice of kubelet which ids these are.
    pub(super) fn is_open(&self) -> bool {
        self.unknown > 0
    }

    /// After a container took all of this set and fresh ids, `set` together.
    pub(super) fn grown(&self, set: CoreSet) -> HandDown {
        let fresh = set.difference(self.provisional);
        HandDown { known: self.known.union(fresh), provisional: set, ..*self }
    }

    /// After kubelet gave a container `cores`, of this set and fresh ones.
    pub(super) fn given(&self, cores: CoreSet, keeps: bool) -> HandDown {
        let known = if keeps { self.provisional.difference(cores) } else { self.provisional.union(cores) };
        HandDown { known, provisional: known, ..HandDown::default() }
    }

    /// The lowest `count` ids, each of `cores_per_id` cores: what is recorded until kubelet's choice is known.
    pub(super) fn lowest(&self, count: u32, cores_per_id: u32) -> CoreSet {
        self.provisional.iter().take((count * cores_per_id) as usize).collect()
    }

    /// After a container that keeps its ids took as many of this set as `taken` has, whichever they are.
    pub(super) fn without(&self, taken: CoreSet, cores_per_id: u32) -> HandDown {
        let provisional = self.provisional.difference(taken);
        if provisional.is_empty() {
            return HandDown::default();
        }
        // Wider than the truth when both parts are filled (how many came from either is lost): some pods that could
        // be placed are refused, none is placed that kubelet could break.
        let pool = self.known.union(self.pool);
        HandDown { known: CoreSet::EMPTY, pool, unknown: provisional.len() / cores_per_id, provisional }
    }

    /// Whether any `count` ids of this set are a candidate set, whatever kubelet picks. `sets` are the free candidate
    /// sets of that count.
    pub(super) fn is_safe(&self, count: u32, sets: &FreeSets) -> bool {
        let cores_per_id = sets.cores_per_id;
        let (known, pool) = (self.known.len() / cores_per_id, self.pool.len() / cores_per_id);
        let choices_with =
            |from_pool: u32| choose(pool, from_pool)?.checked_mul(choose(known, count - from_pool)?);
        let choices = (0..=self.unknown.min(count))
            .try_fold(0u64, |sum, from_pool| sum.checked_add(choices_with(from_pool)?));
        let within = self.known.union(self.pool);
        let reachable = sets.sets.iter().filter(|set| {
            set.cores.is_subset(within)
                && set.cores.intersection(self.pool).len() / cores_per_id <= self.unknown
        });
        choices == Some(reachable.count() as u64)
    }
}

/// The number of ways to choose `some` of `all`; nothing if it is more than any list of sets is long.
fn choose(all: u32, some: u32) -> Option<u64> {
    if some > all {
        return Some(0);
    }
    // To choose the others is the same, and of all there is one choice: no step on the way is larger than the result.
    (0..some.min(all - some)).try_fold(1u64, |ways, at| {
        Some(ways.checked_mul(u64::from(all - at))? / u64::from(at + 1)).filter(|ways| *ways < 1 << 48)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomials_are_exact_or_absent() {
        assert_eq!(choose(16, 8), Some(12_870));
        assert_eq!(choose(3, 0), Some(1));
        assert_eq!(choose(3, 4), Some(0));
        assert_eq!((choose(60, 60), choose(128, 127)), (Some(1), Some(128)));
        assert_eq!(choose(128, 64), None);
    }
}
