//! The moves a search may make, and the search that always finds a placement when one exists.
//! `fits` asks it for any, `place` for a good first one.

use std::collections::HashSet;

use super::free_runs::{self, Demand};
use super::free_sets::{Candidate, Candidates};
use super::hand_down::Handed;
use super::keys::{Scorer, Tally};
use super::plan::{Amount, Plan};
use crate::ids::CoreSet;
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::request::PodRequest;

/// A pod's steps on one node.
pub(super) struct Problem<'a> {
    pub(super) occupancy: &'a Occupancy,
    pub(super) plan: Plan,
    pub(super) free: CoreSet,
    /// Allowed free sets of each step's count.
    lists: Vec<Candidates>,
    /// Step to place in `lists`; steps that ask for the same share one.
    list_of: Vec<usize>,
    shape: Shape,
}

/// Whether kubelet's free choices among handed-down ids must all be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Checked,
    /// As if kubelet always chose well: tells the refusals apart.
    Ignored,
}

/// What one step gives its container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) set: Candidate,
    /// kubelet picks at least some of the ids itself; the set is provisional.
    pub(super) any: bool,
    /// What the step's chain hands down from now on.
    pub(super) after: Handed,
}

impl<'a> Problem<'a> {
    /// Nothing if the node has too little free or some count has no free set.
    pub(super) fn new(request: &PodRequest, occupancy: &'a Occupancy, shape: Shape) -> Option<Problem<'a>> {
        let plan = Plan::of(request);
        if !plan.has_room(occupancy) {
            return None;
        }
        let free = occupancy.free_cores();
        let mut asked: Vec<(Resource, u32)> = Vec::new();
        let mut lists = Vec::new();
        let mut list_of = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            let same = |other: &(Resource, u32)| *other == (step.resource, step.count);
            let list = asked.iter().position(same).unwrap_or(asked.len());
            if list == asked.len() {
                let sets = Candidates::new(occupancy.topology(), step.resource, step.count, free);
                if sets.sets.is_empty() {
                    return None;
                }
                asked.push((step.resource, step.count));
                lists.push(sets);
            }
            list_of.push(list);
        }
        Some(Problem { occupancy, plan, free, lists, list_of, shape })
    }

    /// Number of choices at a step: one when kubelet chooses, else the candidates.
    pub(super) fn choices(&self, at: usize) -> usize {
        if self.plan.steps[at].fresh() == 0 { 1 } else { self.lists[self.list_of[at]].sets.len() }
    }

    /// The move of a choice, given what was handed down in the step's chain and what the pod has already;
    /// nothing if it is not possible.
    pub(super) fn attempt(&self, at: usize, choice: usize, handed: &Handed, taken: CoreSet) -> Option<Move> {
        let step = &self.plan.steps[at];
        let sets = &self.lists[self.list_of[at]];
        let is_safe = |handed: &Handed| self.shape == Shape::Ignored || handed.is_safe(step.count, sets);
        if step.fresh() == 0 {
            if !is_safe(handed) {
                return None;
            }
            let cores = handed.lowest(step.count, sets.width);
            let set = Candidate::new(self.occupancy.topology(), step.resource, cores);
            let after = if step.keeps { handed.without(cores, sets.width) } else { *handed };
            return Some(Move { set, any: handed.is_open() || step.count < step.handed, after });
        }
        let set = sets.sets.get(choice)?;
        let base = handed.likely();
        if !base.is_subset(set.cores) || set.cores.difference(base).intersects(taken) {
            return None;
        }
        let grown = handed.grown(set.cores);
        if handed.is_open() && !is_safe(&grown) {
            return None;
        }
        let after = if step.keeps { Handed::default() } else { grown };
        Some(Move { set: *set, any: handed.is_open(), after })
    }

    /// For each place of an order of steps whether from there on any run of enough free cores of one device
    /// serves every step, and nothing hangs on which.
    pub(super) fn local_from(&self, order: &[usize]) -> Vec<bool> {
        let width = u32::from(self.occupancy.topology().cores_per_device());
        let is_local = |at: &usize| {
            let step = &self.plan.steps[*at];
            let most = if step.resource == Resource::Device { 1 } else { width };
            step.count <= most && self.plan.is_alone(step)
        };
        (0..order.len()).map(|place| order[place..].iter().all(is_local)).collect()
    }

    /// Steps chain by chain, the chain with the largest request first.
    fn largest_first(&self) -> Vec<usize> {
        let mut largest = vec![0; self.plan.chains];
        for (at, step) in self.plan.steps.iter().enumerate() {
            let cores = step.count * self.lists[self.list_of[at]].width;
            largest[step.chain] = cores.max(largest[step.chain]);
        }
        let mut order: Vec<usize> = (0..self.plan.steps.len()).collect();
        order.sort_by_key(|&at| {
            let chain = self.plan.steps[at].chain;
            (std::cmp::Reverse(largest[chain]), chain, at)
        });
        order
    }

    /// Any placement, as one move per step of the plan; nothing only if there is none. With a scorer the
    /// moves that look best by the keys are tried first, else those with the lowest ids.
    pub(super) fn first(&self, scorer: Option<&mut Scorer>) -> Option<Vec<Move>> {
        let order = self.largest_first();
        let mut left = vec![Amount::default(); order.len()];
        for place in (1..order.len()).rev() {
            left[place - 1] = left[place].with(&self.plan.steps[order[place]]);
        }
        let local = self.local_from(&order);
        let width = u32::from(self.occupancy.topology().cores_per_device());
        let steps_from = |place: usize| order[place..].iter().map(|&at| &self.plan.steps[at]);
        let demands = (0..order.len()).map(|place| free_runs::demands(steps_from(place), width)).collect();
        let moves = Vec::with_capacity(order.len());
        let mut first =
            First { problem: self, scorer, order, left, demands, local, dead: HashSet::new(), moves };
        if !first.descend(Handed::default(), Tally::default()) {
            return None;
        }
        let mut moves: Vec<(usize, Move)> = first.order.into_iter().zip(first.moves).collect();
        moves.sort_by_key(|(at, _)| *at);
        Some(moves.into_iter().map(|(_, taken)| taken).collect())
    }
}

/// The complete depth-first search behind [`Problem::first`].
struct First<'p> {
    problem: &'p Problem<'p>,
    scorer: Option<&'p mut Scorer>,
    /// Plan steps in the order in which they are placed.
    order: Vec<usize>,
    /// What is still to take after each place of `order`.
    left: Vec<Amount>,
    /// What the steps from each place on ask for.
    demands: Vec<Vec<Demand>>,
    /// From this place on only single sets inside one device follow.
    local: Vec<bool>,
    dead: HashSet<Dead>,
    moves: Vec<Move>,
}

/// A state from which no placement was found; searched once, so that refusals stay cheap.
#[derive(PartialEq, Eq, Hash)]
enum Dead {
    Exact(usize, CoreSet, Handed),
    /// Where only sets inside one device follow, the lengths of the free runs say everything.
    Runs(usize, Vec<u8>),
}

impl First<'_> {
    fn descend(&mut self, handed: Handed, tally: Tally) -> bool {
        let place = self.moves.len();
        let Some(&at) = self.order.get(place) else { return true };
        let step = self.problem.plan.steps[at];
        let open = self.problem.free.difference(tally.hardware);
        let state = self.state(place, handed, open);
        let may_hold = free_runs::may_hold(self.problem.occupancy.topology(), open, &self.demands[place]);
        if !may_hold || self.dead.contains(&state) {
            return false;
        }
        for choice in self.ranked(at, handed, tally) {
            let Some(taken) = self.problem.attempt(at, choice, &handed, tally.hardware) else { continue };
            self.moves.push(taken);
            // Chains are placed one after the other, so the next one starts with nothing handed down.
            let next = self.order.get(place + 1).map(|&next| self.problem.plan.steps[next].chain);
            let after = if next == Some(step.chain) { taken.after } else { Handed::default() };
            if self.descend(after, tally.with(step.resource, &taken.set)) {
                return true;
            }
            self.moves.pop();
        }
        self.dead.insert(state);
        false
    }

    /// The choices of a step in the order in which they are tried.
    fn ranked(&mut self, at: usize, handed: Handed, tally: Tally) -> Vec<usize> {
        let problem = self.problem;
        let mut choices: Vec<usize> = (0..problem.choices(at)).collect();
        let Some(scorer) = self.scorer.as_deref_mut() else { return choices };
        let left = self.left[self.moves.len()];
        let resource = problem.plan.steps[at].resource;
        let after = |choice| {
            let next = problem.attempt(at, choice, &handed, tally.hardware)?;
            Some(tally.with(resource, &next.set))
        };
        choices.retain(|&choice| after(choice).is_some());
        choices.sort_by_cached_key(|&choice| {
            after(choice).map(|next| (scorer.bound(&next, left), scorer.hits(&next)))
        });
        choices
    }

    fn state(&self, place: usize, handed: Handed, open: CoreSet) -> Dead {
        if self.local[place] {
            Dead::Runs(place, free_runs::lengths(self.problem.occupancy.topology(), open))
        } else {
            Dead::Exact(place, open, handed)
        }
    }
}
