//! Which of the feasible nodes gets the pod: in-tree LeastAllocated, the extenders' scores, then the seed.

use crate::amounts::Amounts;
use crate::scheduler::cache::NodeInfo;

/// What kube-scheduler's scoring assumes for a pod without a request: 100 millicores, 200 MiB.
const NON_ZERO: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 * 1024 * 1024)];

/// 0..=100: the mean free share of cpu and memory after the pod is placed.
pub(crate) fn least_allocated(request: &Amounts, node: &NodeInfo) -> i64 {
    let mut shares = Vec::new();
    for (resource, default) in NON_ZERO {
        let requested = |amounts: &Amounts| match amounts.get(resource) {
            0 => default,
            amount => amount,
        };
        let total = node.allocatable.get(resource);
        let used = requested(request) + node.pods.iter().map(|pod| requested(&pod.request)).sum::<i64>();
        if total > 0 {
            shares.push((total - used).max(0).saturating_mul(100) / total);
        }
    }
    let count = i64::try_from(shares.len()).unwrap_or(1).max(1);
    shares.iter().sum::<i64>() / count
}

/// The node with the highest score; among equals the seed and the pod's name decide.
pub(crate) fn choose(scores: &[(String, i64)], seed: u64, pod: &str) -> Option<String> {
    let highest = scores.iter().map(|(_, score)| *score).max()?;
    let best: Vec<&String> =
        scores.iter().filter(|(_, score)| *score == highest).map(|(node, _)| node).collect();
    let pick = mix(seed, pod) % u64::try_from(best.len()).ok()?;
    best.get(usize::try_from(pick).ok()?).map(|node| (*node).clone())
}

/// FNV-1a over the seed and the text, with a final mix: the same on every machine and in every version.
fn mix(seed: u64, text: &str) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let start = seed.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    let hash = text.as_bytes().iter().fold(start, step);
    (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 17
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_nodes_are_chosen_by_seed_and_every_one_can_be() {
        let scores: Vec<_> = ["a", "b", "c"].map(|node| (node.to_owned(), 5)).into();
        let chosen = |seed| choose(&scores, seed, "default/p").unwrap();
        assert_eq!(chosen(7), chosen(7));
        let all: std::collections::BTreeSet<_> = (0..64).map(chosen).collect();
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn the_highest_score_wins() {
        let scores = [("a".to_owned(), 5), ("b".to_owned(), 6)];
        assert!((0..16).all(|seed| choose(&scores, seed, "default/p").as_deref() == Some("b")));
        assert_eq!(choose(&[], 0, "default/p"), None);
    }
}
