//! Which recovery branches of the programs a simulation has reached. Programs call [`reached`] where they recover from what
//! rarely happens; outside a simulation that is one look at a thread's own variable.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// How often each branch was reached.
pub type BranchCounts = BTreeMap<&'static str, u64>;

thread_local! {
    /// None outside a simulation.
    static COUNTS: RefCell<Option<BranchCounts>> = const { RefCell::new(None) };
}

/// The branch is being taken. `branch` is its name, `part: what happened`, and stands in the crate's list of branches.
pub fn reached(branch: &'static str) {
    COUNTS.with_borrow_mut(|counts| {
        if let Some(counts) = counts {
            *counts.entry(branch).or_default() += 1;
        }
    });
}

/// Counts the branches that are reached on this thread from now on.
pub fn count_branches() {
    COUNTS.set(Some(BranchCounts::new()));
}

/// What was counted on this thread; none is counted any more.
pub fn counted_branches() -> BranchCounts {
    COUNTS.take().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_counted_only_where_somebody_asked_for_it() {
        reached("test: before");
        count_branches();
        reached("test: twice");
        reached("test: twice");
        assert_eq!(counted_branches(), BranchCounts::from([("test: twice", 2)]));
        reached("test: after");
        assert_eq!(counted_branches(), BranchCounts::new());
    }
}
