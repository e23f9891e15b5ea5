//! How well nodes suit a pod, beside each other: what the extender's prioritize orders them by (docs/architecture.md §4).

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::budget::{Budget, SearchCost};
use super::diagnose::check_containers;
use super::equal_nodes::Equal;
use super::keys::{Keys, PartialPlacement, Scorer};
use super::plan::Plan;
use super::problem::{KubeletsChoice, Problem};
use super::{depth_first, greedy};
use crate::occupancy::Occupancy;
use crate::request::PodRequest;
use crate::topology::Topology;

/// Moves for one node, and for all of a call: a node that comes after these are spent has no rank.
const MOVES_OF_NODE: u32 = 20_000;
const MOVES_OF_RANKS: u32 = 20 * MOVES_OF_NODE;

/// How well a node suits a pod; of two the smaller is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Physical cores of the whole machine. Of unlike machines the smallest that serves comes first, so that what only a large one can
    /// serve still finds its place there.
    machine: u32,
    /// The keys of the placement that is found there first, without its ids: those of two machines mean nothing to each other.
    keys: Keys,
}

/// Stands for a rank of [`Ranks`]; equal ranks have one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankNumber(usize);

/// The ranks of nodes for one request: equal nodes have one rank, which is worked out once.
#[derive(Debug)]
pub struct Ranks {
    request: PodRequest,
    /// Weak, since whoever keeps ranks is not to keep topologies that no node has any more.
    topologies: Vec<Weak<Topology>>,
    /// Those worked out, by their numbers.
    ranks: Vec<Rank>,
    /// Their numbers, the best one's first.
    order: Vec<RankNumber>,
    known: FxHashMap<Equal, Option<RankNumber>>,
    /// Of this call so far, of [`MOVES_OF_RANKS`].
    cost: SearchCost,
}

/// Where each rank stands among all of [`Ranks`].
#[derive(Debug)]
pub struct Places(Vec<usize>);

impl Places {
    /// How many ranks are better; of one that these are not the places of, `usize::MAX`.
    pub fn of(&self, number: RankNumber) -> usize {
        self.0.get(number.0).copied().unwrap_or(usize::MAX)
    }

    /// How many ranks there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Ranks {
    /// Nothing is known yet.
    pub fn new(request: &PodRequest) -> Self {
        Self {
            request: request.clone(),
            topologies: Vec::new(),
            ranks: Vec::new(),
            order: Vec::new(),
            known: FxHashMap::default(),
            cost: SearchCost::default(),
        }
    }

    /// Begins another call about a pod with the same request. Ranks stay, unless a search was given up, which may have more moves left in
    /// another call, or a topology went with its last node: new ones may come and go for ever.
    pub fn renew(&mut self) {
        if self.cost.given_up > 0 || self.topologies.iter().any(|known| known.strong_count() == 0) {
            *self = Self::new(&self.request);
        }
        self.cost = SearchCost::default();
    }

    /// Number of nodes' occupancies and topologies that are kept.
    pub fn kept(&self) -> usize {
        self.known.len() + self.topologies.len()
    }

    /// What the pod requests.
    pub fn request(&self) -> &PodRequest {
        &self.request
    }

    /// What searching for it took in this call so far.
    pub fn cost(&self) -> SearchCost {
        self.cost
    }

    /// The rank of a node with this occupancy; none where the pod does not fit, this was not found out in time, or the pod requests
    /// no Neuron hardware.
    pub fn rank(&mut self, occupancy: &Occupancy) -> Option<Rank> {
        self.number(occupancy).map(|number| self.ranks[number.0].clone())
    }

    /// The number of the [`rank`](Self::rank) of a node with this occupancy, which costs less than the rank.
    pub fn number(&mut self, occupancy: &Occupancy) -> Option<RankNumber> {
        if self.request.is_empty() {
            return None;
        }
        let topology = self.index(occupancy.topology());
        let equal = Equal { topology, held: occupancy.held(), unhealthy: occupancy.unhealthy() };
        if let Some(known) = self.known.get(&equal) {
            return *known;
        }
        let budget = self.cost.next(MOVES_OF_RANKS, MOVES_OF_NODE);
        let rank = rank(&self.request, occupancy, &budget);
        self.cost.add(&budget);
        let number = rank.map(|rank| self.keep(rank));
        self.known.insert(equal, number);
        number
    }

    /// Where each rank stands that is known by now.
    pub fn places(&self) -> Places {
        let mut places = vec![0; self.order.len()];
        for (place, number) in self.order.iter().enumerate() {
            places[number.0] = place;
        }
        Places(places)
    }

    fn keep(&mut self, rank: Rank) -> RankNumber {
        match self.order.binary_search_by(|known| self.ranks[known.0].cmp(&rank)) {
            Ok(place) => self.order[place],
            Err(place) => {
                let number = RankNumber(self.ranks.len());
                self.ranks.push(rank);
                self.order.insert(place, number);
                number
            }
        }
    }

    fn index(&mut self, topology: &Arc<Topology>) -> usize {
        let known = self.topologies.iter().position(|known| known.as_ptr() == Arc::as_ptr(topology));
        known.unwrap_or_else(|| {
            self.topologies.push(Arc::downgrade(topology));
            self.topologies.len() - 1
        })
    }
}

fn rank(request: &PodRequest, occupancy: &Occupancy, budget: &Budget) -> Option<Rank> {
    check_containers(request).ok()?;
    let plan = Plan::of(request);
    if !plan.enough_is_free(occupancy) {
        return None;
    }
    // Without a move left nothing is listed or scored: thousands of nodes may come after the one that took the last.
    if budget.give_up_if_used_up() {
        return None;
    }
    let mut scorer = Scorer::new(occupancy);
    let placed = greedy::best(&plan, occupancy, &mut scorer, budget).or_else(|| {
        let problem = Problem::of_plan(plan, occupancy, KubeletsChoice::Any)?;
        let moves = depth_first::find(&problem, Some(&mut scorer), budget)?;
        Some(PartialPlacement::of(&problem.plan, &moves))
    })?;
    let topology = occupancy.topology();
    Some(Rank {
        machine: u32::from(topology.cores()) * u32::from(topology.lnc()),
        keys: scorer.keys(&placed),
    })
}
