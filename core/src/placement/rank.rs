//! How well nodes suit a pod, beside each other: what the extender's prioritize orders them by (docs/architecture.md §4).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::budget::{Budget, SearchCost};
use super::depth_first;
use super::equal_nodes::Equal;
use super::keys::Scorer;
use super::problem::{KubeletsChoice, Problem};
use super::{Keys, placement};
use crate::occupancy::Occupancy;
use crate::request::PodRequest;
use crate::topology::Topology;

/// Moves for one node, and for all of a call: a node that comes after these are spent has no rank.
const MOVES_OF_NODE: u32 = 20_000;
const MOVES_OF_CALL: u32 = 20 * MOVES_OF_NODE;

/// How well a node suits a pod; of two the smaller is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Physical cores of the whole machine. Of unlike machines the smallest that serves comes first, so that what only a large one can
    /// serve still finds its place there.
    machine: u32,
    /// The keys of the placement that is found there first, without its ids: those of two machines mean nothing to each other.
    keys: Keys,
}

/// Stands for a rank of [`Ranks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankNumber(usize);

/// The ranks of one pod, for any number of nodes: equal nodes have one rank, which is worked out once.
#[derive(Debug)]
pub struct Ranks<'r> {
    request: &'r PodRequest,
    topologies: Vec<Arc<Topology>>,
    /// Those worked out, by their numbers.
    ranks: Vec<Rank>,
    known: FxHashMap<Equal, Option<RankNumber>>,
    /// So far, of [`MOVES_OF_CALL`].
    cost: SearchCost,
}

impl<'r> Ranks<'r> {
    /// Nothing is known yet.
    pub fn new(request: &'r PodRequest) -> Self {
        Self {
            request,
            topologies: Vec::new(),
            ranks: Vec::new(),
            known: FxHashMap::default(),
            cost: SearchCost::default(),
        }
    }

    /// What searching for it took so far.
    pub fn cost(&self) -> SearchCost {
        self.cost
    }

    /// The rank of a node with this occupancy; none where the pod does not fit, this was not found out in time, or the pod requests
    /// no Neuron hardware.
    pub fn rank(&mut self, occupancy: &Occupancy) -> Option<Rank> {
        self.number(occupancy).map(|number| self.of(number).clone())
    }

    /// The rank of this number.
    ///
    /// # Panics
    /// The number is of other `Ranks`, which had more.
    pub fn of(&self, number: RankNumber) -> &Rank {
        &self.ranks[number.0]
    }

    /// The number of the [`rank`](Self::rank) of a node with this occupancy: equal nodes have the same one, and it costs less than a rank.
    pub fn number(&mut self, occupancy: &Occupancy) -> Option<RankNumber> {
        if self.request.is_empty() {
            return None;
        }
        let topology = self.index(occupancy.topology());
        let equal = Equal { topology, held: occupancy.held(), unhealthy: occupancy.unhealthy() };
        let (request, cost, ranks) = (self.request, &mut self.cost, &mut self.ranks);
        let rank = || {
            let budget = cost.next(MOVES_OF_CALL, MOVES_OF_NODE);
            let rank = rank(request, occupancy, &budget);
            cost.add(&budget);
            ranks.push(rank?);
            Some(RankNumber(ranks.len() - 1))
        };
        *self.known.entry(equal).or_insert_with(rank)
    }

    fn index(&mut self, topology: &Arc<Topology>) -> usize {
        let known = self.topologies.iter().position(|known| Arc::ptr_eq(known, topology));
        known.unwrap_or_else(|| {
            self.topologies.push(Arc::clone(topology));
            self.topologies.len() - 1
        })
    }
}

fn rank(request: &PodRequest, occupancy: &Occupancy, budget: &Budget) -> Option<Rank> {
    let problem = Problem::new(request, occupancy, KubeletsChoice::Any)?;
    let mut scorer = Scorer::new(occupancy);
    let moves = depth_first::find(&problem, Some(&mut scorer), budget)?;
    let keys = Keys { ids: Vec::new(), ..placement(request, &problem, &mut scorer, &moves).keys };
    let topology = occupancy.topology();
    Some(Rank { machine: u32::from(topology.cores()) * u32::from(topology.lnc()), keys })
}
