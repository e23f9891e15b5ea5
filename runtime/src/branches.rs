//! Which recovery branches of the programs a simulation has reached. Programs call [`reached`] where they recover from what
//! rarely happens; outside a simulation that is one look at a thread's own variable.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The branches that list-and-watch counts by itself, sorted: whoever simulates a program that watches should reach them.
pub const BRANCHES: &[&str] = &[
    "runtime: list not answered",
    "runtime: listed again",
    "runtime: page too long",
    "runtime: watch ended at once",
    "runtime: watch ended with an error",
    "runtime: watch not answered",
    "runtime: watch silent",
    "runtime: watch taken up again",
    "runtime: watch too old to begin",
];

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
#[allow(clippy::disallowed_methods, reason = "a test reads the sources")]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The names of this crate's own branches that the sources in a folder, and those in it, count.
    fn counted_in(folder: &Path, found: &mut BTreeSet<String>) {
        // In two parts, so that it is not found here.
        let call = ["reached(", "\"runtime: "].concat();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                counted_in(&path, found);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let names = source.split(&call).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(names.map(|name| format!("runtime: {name}")));
        }
    }

    #[test]
    fn the_list_has_the_branches_that_are_counted_and_no_others() {
        let mut found = BTreeSet::new();
        counted_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), BRANCHES);
    }

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
