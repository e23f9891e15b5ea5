//! `/prioritize`: how well each of the given nodes suits a pod, so that what is large and linked stays for who needs it. Writes
//! nothing. Called by the routes.

use std::sync::Arc;

use neuron_core::device_model::DeviceModels;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Places, RankNumber, Ranks};
use neuron_core::request::PodRequest;
use runtime::reached;
use tokio::task::yield_now;

use super::MOVES_OF_TURN;
use super::answered::Answered;
use crate::index::{Cluster, Index};
use crate::metrics::{Metrics, Verb};
use crate::wire::{BodyError, FilterArgs, NodeName, NodeScore, PodToPlace};

/// Moves of a turn. Each is scored, which takes many times as long where thousands of sets are linked (policy `linked`).
const SCORED_OF_TURN: u32 = MOVES_OF_TURN / 10;

/// Unlike nodes that are ranked in a turn, some 10 ms of them: each takes up to 100 us, whatever is searched.
const RANKS_OF_TURN: usize = 100;

/// The best score; the worst is 0 (docs/reference/kubernetes.md §1).
const BEST: usize = 10;

/// How one node suits the pod: the place of its model among those wanted, then its rank.
type Suits = (usize, RankNumber);

/// Answers `/prioritize`. Clones share the cluster and what was ranked.
#[derive(Clone)]
pub(crate) struct Prioritize {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    ranked: Arc<Answered<Ranks>>,
}

impl Prioritize {
    /// Ranks the nodes of this cluster.
    pub(crate) fn new(cluster: Arc<Cluster>, metrics: Arc<Metrics>) -> Self {
        Self { cluster, metrics, ranked: Arc::default() }
    }

    /// The scores above 0 among the given nodes, equal ones where nodes suit the pod equally well: none where all do, or for a pod that asks
    /// for no Neuron hardware. kube-scheduler takes a node that is not named for one of 0, and of thousands most are. It has filtered before,
    /// so a node that does not fit has got full meanwhile. Others get a turn where much has to be searched, and the index is free meanwhile.
    ///
    /// # Errors
    /// The call names no pod.
    pub(crate) async fn prioritize<'a>(&self, args: FilterArgs<'a>) -> Result<Vec<NodeScore<'a>>, BodyError> {
        let FilterArgs { pod, nodes, node_names } = args;
        let pod = pod.ok_or(BodyError::Missing { verb: "prioritize", field: "Pod" })?;
        let of_nodes = || {
            let nodes = nodes.and_then(|nodes| nodes.items).unwrap_or_default();
            nodes.into_iter().map(|node| node.name).collect()
        };
        let names: Vec<NodeName<'a>> = node_names.unwrap_or_else(of_nodes);
        let mut ranks = self.ranked.take(pod.request.as_ref().unwrap_or(&PodRequest::default()));
        let mut suits = Vec::with_capacity(names.len());
        while self.cluster.read(|index| take_turn(index, &pod, &names, &mut ranks, &mut suits)) {
            yield_now().await;
        }
        self.metrics.searched(Verb::Prioritize, ranks.cost());
        let scores = Scores::of(&suits, ranks.places());
        self.ranked.keep(ranks);
        let scored = |(host, suits): (NodeName<'a>, Option<Suits>)| {
            let score = scores.score(suits?);
            (score > 0).then_some(NodeScore { host, score })
        };
        Ok(names.into_iter().zip(suits).filter_map(scored).collect())
    }
}

/// The scores of these nodes, of one model all.
pub(crate) fn scores(request: &PodRequest, nodes: &[&Occupancy]) -> Vec<u8> {
    let mut ranks = Ranks::new(request);
    let suits: Vec<Option<Suits>> = nodes.iter().map(|node| Some((0, ranks.number(node)?))).collect();
    let scores = Scores::of(&suits, ranks.places());
    suits.into_iter().map(|suits| suits.map_or(0, |suits| scores.score(suits))).collect()
}

/// The scores of one call.
struct Scores {
    places: Places,
    /// By the place of the model, and within it by that of the rank.
    by_way: Vec<u8>,
}

impl Scores {
    fn of(suits: &[Option<Suits>], places: Places) -> Self {
        let models = suits.iter().flatten().map(|(model, _)| model + 1).max().unwrap_or_default();
        let mut scores = Self { by_way: vec![0; models * places.count()], places };
        // Marked rather than sorted: nodes are many, and the ways in which they suit a pod are few.
        for way in suits.iter().flatten() {
            let way = scores.way(*way);
            if let Some(is_met) = scores.by_way.get_mut(way) {
                *is_met = 1;
            }
        }
        let worst = scores.by_way.iter().filter(|is_met| **is_met == 1).count().saturating_sub(1);
        if worst == 0 && suits.iter().all(Option::is_some) {
            scores.by_way.fill(0);
            return scores;
        }
        reached("extender: nodes prioritized");
        let met = scores.by_way.iter_mut().filter(|is_met| **is_met == 1);
        met.enumerate().for_each(|(better, way)| *way = score(better, worst));
        scores
    }

    fn score(&self, suits: Suits) -> u8 {
        self.by_way.get(self.way(suits)).copied().unwrap_or_default()
    }

    /// Which way it is, of a better model or of a better rank before others.
    fn way(&self, (model, rank): Suits) -> usize {
        (model * self.places.count()).saturating_add(self.places.of(rank))
    }
}

/// Adds how nodes suit the pod until none is left or a turn has been searched. Whether some are left.
fn take_turn(
    index: &Index,
    pod: &PodToPlace,
    names: &[NodeName<'_>],
    ranks: &mut Ranks,
    found: &mut Vec<Option<Suits>>,
) -> bool {
    let models = index.device_models(pod.metadata.device_model()).unwrap_or_default();
    let moves_end = ranks.cost().moves.saturating_add(SCORED_OF_TURN);
    let ranks_end = ranks.kept().saturating_add(RANKS_OF_TURN);
    for name in names.iter().skip(found.len()) {
        found.push(suits(index, &name.0, models.as_ref(), ranks));
        if ranks.cost().moves >= moves_end || ranks.kept() >= ranks_end {
            return true;
        }
    }
    false
}

/// How the node suits the pod; none if it does not fit, or nothing is asked for.
fn suits(index: &Index, node: &str, models: Option<&DeviceModels>, ranks: &mut Ranks) -> Option<Suits> {
    let view = index.view(node)?;
    let model = match models {
        Some(models) => models.place_of(view.topology()?)?,
        None => 0,
    };
    Some((model, view.rank(ranks)?))
}

/// The score where so many others are better, of the worst so many: the best alone has [`BEST`], the last of several 0.
fn score(better: usize, worst: usize) -> u8 {
    let loss = if worst == 0 { 0 } else { BEST.saturating_mul(better).div_ceil(worst) };
    u8::try_from(BEST.saturating_sub(loss)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_alone_has_the_best_score_however_many_others_there_are() {
        assert_eq!(score(0, 0), 10);
        for worst in [1, 2, 11, 30, 4999] {
            let scores: Vec<u8> = (0..=worst).map(|better| score(better, worst)).collect();
            assert!(scores.is_sorted_by(|one, next| one >= next), "{scores:?}");
            assert_eq!((scores[0], scores[worst]), (10, 0));
            assert!(scores[1] < 10, "{scores:?}");
        }
    }
}
