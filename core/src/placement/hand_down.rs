//! The ids that kubelet hands down inside one pod, and whether every way it may choose among them is
//! allowed. kubelet picks among handed-down ids at random and asks no plugin (facts/kubernetes.md §2, §6).

use super::free_sets::Candidates;
use crate::ids::CoreSet;

/// The hand-down set of one chain, as hardware: all of `known` and any `unknown` members of `pool`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Handed {
    known: CoreSet,
    pool: CoreSet,
    unknown: u32,
    /// What the set is if kubelet always picks the lowest ids: the provisional record.
    likely: CoreSet,
}

impl Handed {
    /// The provisional set, which a container that needs more ids gets entirely.
    pub(super) fn likely(&self) -> CoreSet {
        self.likely
    }

    /// Whether nobody can say before kubelet chose which ids these are.
    pub(super) fn is_open(&self) -> bool {
        self.unknown > 0
    }

    /// After a container took all of this set plus fresh ids, `set` together.
    pub(super) fn grown(&self, set: CoreSet) -> Handed {
        let fresh = set.difference(self.likely);
        Handed { known: self.known.union(fresh), likely: set, ..*self }
    }

    /// The lowest `count` ids, each `width` cores wide: what is recorded until kubelet's choice is known.
    pub(super) fn lowest(&self, count: u32, width: u32) -> CoreSet {
        self.likely.iter().take((count * width) as usize).collect()
    }

    /// After a container that keeps its ids took `taken`, any as many of this set.
    pub(super) fn without(&self, taken: CoreSet, width: u32) -> Handed {
        let likely = self.likely.difference(taken);
        if likely.is_empty() {
            return Handed::default();
        }
        // Wider than the truth when both parts are filled (how many came from either is lost), which can
        // only refuse a shape, never let a broken one through.
        let pool = self.known.union(self.pool);
        Handed { known: CoreSet::EMPTY, pool, unknown: likely.len() / width, likely }
    }

    /// Whether any `count` ids of this set are an allowed set, whatever kubelet picks.
    /// `allowed` are the sets of that count.
    pub(super) fn is_safe(&self, count: u32, allowed: &Candidates) -> bool {
        let width = allowed.width;
        let (known, pool) = (self.known.len() / width, self.pool.len() / width);
        let ways = |from_pool: u32| {
            let outcomes = choose(pool, from_pool)?.checked_mul(choose(known, count - from_pool)?)?;
            Some(outcomes)
        };
        let outcomes = (0..=self.unknown.min(count))
            .try_fold(0u64, |sum, from_pool| ways(from_pool).and_then(|more| sum.checked_add(more)));
        let within = self.known.union(self.pool);
        let possible = allowed.sets.iter().filter(|set| {
            set.cores.is_subset(within) && set.cores.intersection(self.pool).len() / width <= self.unknown
        });
        outcomes == Some(possible.count() as u64)
    }
}

/// The number of ways to pick `some` out of `all`; nothing if it is beyond any list of sets.
fn choose(all: u32, some: u32) -> Option<u64> {
    if some > all {
        return Some(0);
    }
    (0..some).try_fold(1u64, |ways, at| {
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
        assert_eq!(choose(128, 64), None);
    }
}
