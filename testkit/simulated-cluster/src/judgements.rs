//! What is judged, by the names under which a [`Summary`](crate::Summary) counts it, and how often it has to be: what is never judged, or
//! hardly ever, passes whatever it is.

use std::collections::BTreeMap;

/// Judgements that every longer simulation comes to.
pub const JUDGEMENTS: &[&str] = &[
    "bindings",
    "bound pods at rest",
    "events about pods",
    "nodes at rest",
    "refusals",
    "sizes",
    "texts",
    "texts as they were said",
    "waiting pods",
];

/// Of judgements that cannot always be made: what is counted where one was, what where it was not, and the least share of the first, as a
/// part of one. A day of chaos has some 0.7 of texts and 0.9 or more of the others.
const LEAST_SHARES: &[(&str, &str, f64)] = &[
    ("events about pods", "events about pods while nodes were edited", 0.5),
    ("nodes at rest", "nodes at rest that were not ready", 0.75),
    ("texts", "texts of a cluster that had changed lately", 0.25),
    ("texts as they were said", "texts as they were said while nodes were edited", 0.5),
    ("waiting pods", "waiting pods for which no node could be judged", 0.75),
];

/// What was judged too seldom, by how often each was judged and could not be: a line for each.
pub fn judged_too_seldom(judged: &BTreeMap<String, u64>) -> Vec<String> {
    let count = |name: &str| judged.get(name).copied().unwrap_or_default();
    let seldom = LEAST_SHARES.iter().filter_map(|(made, missed, least)| {
        let (made_count, missed_count) = (count(made), count(missed));
        let all = made_count + missed_count;
        ((made_count as f64) < least * all as f64)
            .then(|| format!("{made}: {made_count} of {all}, at least {least} of them should be"))
    });
    seldom.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn too_seldom(made: u64, missed: u64) -> Vec<String> {
        let (of_made, of_missed, _) = LEAST_SHARES[2];
        judged_too_seldom(&BTreeMap::from([(of_made.to_owned(), made), (of_missed.to_owned(), missed)]))
    }

    #[test]
    fn what_is_judged_in_few_cases_of_many_is_told() {
        assert_eq!(too_seldom(2, 343), ["texts: 2 of 345, at least 0.25 of them should be"]);
        assert_eq!(too_seldom(25, 75), [""; 0]);
        assert_eq!(too_seldom(0, 0), [""; 0], "what never came up is told as never reached");
    }
}
