//! `/prioritize`: how well each of the given nodes suits a pod, so that what is large and linked stays for who needs it. Writes
//! nothing. Called by the routes.

use std::collections::{BTreeMap, BTreeSet};

use neuron_core::device_model::DeviceModels;
use neuron_core::placement::{RankNumber, Ranks};
use runtime::reached;

use crate::index::{Cluster, Index};
use crate::metrics::{Metrics, Verb};
use crate::wire::{BodyError, FilterArgs, NodeName, NodeScore};

/// The best score; the worst is 0 (docs/reference/kubernetes.md §1).
const BEST: usize = 10;

/// How one node suits the pod: the place of its model among those wanted, then its rank.
type Suits = (usize, RankNumber);

/// A score for each given node, equal ones where nodes suit the pod equally well; all 0 for a pod that asks for no Neuron
/// hardware. kube-scheduler has filtered before, so a node that does not fit has got full meanwhile.
///
/// # Errors
/// The call names no pod.
pub(crate) fn prioritize<'a>(
    cluster: &Cluster,
    metrics: &Metrics,
    args: FilterArgs<'a>,
) -> Result<Vec<NodeScore<'a>>, BodyError> {
    let FilterArgs { pod, nodes, node_names } = args;
    let pod = pod.ok_or(BodyError::Missing { verb: "prioritize", field: "Pod" })?;
    let of_nodes = || {
        let nodes = nodes.and_then(|nodes| nodes.items).unwrap_or_default();
        nodes.into_iter().map(|node| node.name).collect()
    };
    let names: Vec<NodeName<'a>> = node_names.unwrap_or_else(of_nodes);
    let request = pod.request().unwrap_or_default();
    let (suits, scores) = cluster.read(|index| {
        let models = index.device_models(pod.metadata.device_model()).unwrap_or_default();
        let mut ranks = Ranks::new(&request);
        let suits: Vec<Option<Suits>> =
            names.iter().map(|name| suits(index, &name.0, models.as_ref(), &mut ranks)).collect();
        metrics.searched(Verb::Prioritize, ranks.cost());
        let scores = scores(&suits, &ranks);
        (suits, scores)
    });
    let score_of = |suits: Option<Suits>| suits.and_then(|suits| scores.get(&suits)).copied();
    let score = |(host, suits): (NodeName<'a>, _)| NodeScore { host, score: score_of(suits).unwrap_or(0) };
    Ok(names.into_iter().zip(suits).map(score).collect())
}

/// The score of each way in which nodes suit the pod.
fn scores(suits: &[Option<Suits>], ranks: &Ranks<'_>) -> BTreeMap<Suits, i64> {
    let ways: BTreeSet<Suits> = suits.iter().flatten().copied().collect();
    let mut ways: Vec<Suits> = ways.into_iter().collect();
    let key = |(model, rank): &Suits| (*model, ranks.of(*rank));
    ways.sort_by(|one, other| key(one).cmp(&key(other)));
    // Unlike nodes may suit the pod equally well.
    let alike: Vec<&[Suits]> = ways.chunk_by(|one, next| key(one) == key(next)).collect();
    if alike.len() > 1 {
        reached("extender: nodes prioritized");
    }
    let worst = alike.len().saturating_sub(1);
    let each = |(better, alike): (usize, &&[Suits])| {
        let score = score(better, worst);
        alike.iter().map(move |suits| (*suits, score)).collect::<Vec<_>>()
    };
    alike.iter().enumerate().flat_map(each).collect()
}

/// How the node suits the pod; none if it does not fit, or nothing is asked for.
fn suits(index: &Index, node: &str, models: Option<&DeviceModels>, ranks: &mut Ranks<'_>) -> Option<Suits> {
    let view = index.view(node)?;
    let model = match models {
        Some(models) => models.place_of(view.topology()?)?,
        None => 0,
    };
    Some((model, view.rank(ranks)?))
}

/// The score where so many others are better, of the worst so many: the best alone has [`BEST`], the last of several 0.
fn score(better: usize, worst: usize) -> i64 {
    let loss = if worst == 0 { 0 } else { BEST.saturating_mul(better).div_ceil(worst) };
    i64::try_from(BEST.saturating_sub(loss)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_alone_has_the_best_score_however_many_others_there_are() {
        assert_eq!(score(0, 0), 10);
        for worst in [1, 2, 11, 30, 4999] {
            let scores: Vec<i64> = (0..=worst).map(|better| score(better, worst)).collect();
            assert!(scores.is_sorted_by(|one, next| one >= next), "{scores:?}");
            assert_eq!((scores[0], scores[worst]), (10, 0));
            assert!(scores[1] < 10, "{scores:?}");
        }
    }
}
