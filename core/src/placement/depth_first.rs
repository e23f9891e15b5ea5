//! The search that finds a placement whenever one exists: depth first, largest request first. `fits` wants any
//! placement, `place` one that is good already.

use rustc_hash::FxHashSet;

use super::budget::Budget;
use super::free_runs::{self, Demand};
use super::hand_down::HandDown;
use super::keys::{PartialPlacement, Scorer};
use super::plan::{Amount, Step};
use super::problem::{Move, Problem};
use crate::ids::CoreSet;
use crate::names::Resource;

/// Any placement, as one move for each step of the plan; nothing only if there is none, or the budget is spent. With a scorer the
/// moves that look best by the keys are tried first, else those with the lowest ids.
pub(super) fn find(problem: &Problem<'_>, scorer: Option<&mut Scorer>, budget: &Budget) -> Option<Vec<Move>> {
    let order = problem.plan.largest_first(problem.topology);
    // A chain that fits nowhere by itself fits nowhere beside others, which need not be moved about for that.
    let is_alone = |chain: usize| order.iter().all(|&step| problem.plan.steps[step].chain == chain);
    for chain in 0..problem.plan.chains {
        let own = |step: &usize| problem.plan.steps[*step].chain == chain;
        let steps: Vec<usize> = order.iter().copied().filter(own).collect();
        if steps.len() > 1 && !is_alone(chain) {
            search(problem, None, steps, budget)?;
        }
    }
    let found = search(problem, scorer, order.clone(), budget)?;
    let mut moves: Vec<(usize, Move)> = order.into_iter().zip(found).collect();
    moves.sort_by_key(|(step, _)| *step);
    Some(moves.into_iter().map(|(_, made)| made).collect())
}

/// A move for each of these steps of the plan, in this order; chains as a whole, one after the other.
fn search(
    problem: &Problem<'_>,
    scorer: Option<&mut Scorer>,
    order: Vec<usize>,
    budget: &Budget,
) -> Option<Vec<Move>> {
    let steps = &problem.plan.steps;
    let cores_per_device = u32::from(problem.topology.cores_per_device());
    let mut left = vec![Amount::default(); order.len()];
    for place in (1..order.len()).rev() {
        left[place - 1] = left[place].with(&steps[order[place]]);
    }
    let steps_from = |place: usize| order[place..].iter().map(|&step| &steps[step]);
    let demands = (0..order.len()).map(|place| free_runs::demands(steps_from(place), cores_per_device));
    let is_inside = |step: &usize| {
        problem.takes_any_set(*step) && is_inside_one_device(problem, &steps[*step], cores_per_device)
    };
    let inside_devices = (0..order.len()).map(|place| order[place..].iter().all(is_inside));
    let mut search = DepthFirst {
        demands: demands.collect(),
        inside_devices: inside_devices.collect(),
        problem,
        scorer,
        left,
        failed: FxHashSet::default(),
        moves: Vec::with_capacity(order.len()),
        order,
        budget,
    };
    search.descend(HandDown::default(), PartialPlacement::default()).then_some(search.moves)
}

/// Whether any run of enough free cores of one device serves the step and no other step depends on which.
fn is_inside_one_device(problem: &Problem<'_>, step: &Step, cores_per_device: u32) -> bool {
    let most = if step.resource == Resource::Device { 1 } else { cores_per_device };
    step.count <= most && problem.plan.is_alone(step)
}

struct DepthFirst<'p> {
    problem: &'p Problem<'p>,
    scorer: Option<&'p mut Scorer>,
    /// Plan steps in the order in which they are placed.
    order: Vec<usize>,
    /// What is still to place after each place of `order`.
    left: Vec<Amount>,
    /// The core counts requested from each place of `order` on.
    demands: Vec<Vec<Demand>>,
    /// Whether from each place of `order` on every step takes a set inside one device, any of its size.
    inside_devices: Vec<bool>,
    failed: FxHashSet<State>,
    moves: Vec<Move>,
    budget: &'p Budget,
}

/// All that decides whether the rest of a pod can be placed. Each state that fails is searched once, so that refusals
/// stay cheap.
#[derive(PartialEq, Eq, Hash)]
enum State {
    /// The place in the order, the cores still free, and what is handed down.
    Exact(usize, CoreSet, HandDown),
    /// The place in the order and the lengths of the free runs, which decide where only sets inside one device follow.
    Runs(usize, Vec<u8>),
}

impl DepthFirst<'_> {
    fn descend(&mut self, handed_down: HandDown, placed: PartialPlacement) -> bool {
        let place = self.moves.len();
        let Some(&at) = self.order.get(place) else { return true };
        let step = self.problem.plan.steps[at];
        let free = self.problem.free.difference(placed.hardware);
        let state = self.state(place, handed_down, free);
        let may_succeed = free_runs::may_meet(self.problem.topology, free, &self.demands[place]);
        if !may_succeed || self.failed.contains(&state) {
            return false;
        }
        if self.budget.take(self.problem.cost(at, &handed_down)).is_none() {
            return false;
        }
        for index in self.ranked(at, handed_down, placed) {
            let Some(made) = self.problem.attempt(at, index, &handed_down, placed.hardware) else { continue };
            self.moves.push(made);
            // Chains are placed one after the other, so the next one starts with nothing handed down.
            let next = self.order.get(place + 1).map(|&next| self.problem.plan.steps[next].chain);
            let after = if next == Some(step.chain) { made.after } else { HandDown::default() };
            if self.descend(after, placed.with(step.resource, &made.set)) {
                return true;
            }
            self.moves.pop();
            if self.budget.is_spent() {
                return false;
            }
        }
        self.failed.insert(state);
        false
    }

    /// The indices of a step's moves in the order in which they are tried.
    fn ranked(&mut self, at: usize, handed_down: HandDown, placed: PartialPlacement) -> Vec<usize> {
        let problem = self.problem;
        let indices = 0..problem.moves(at);
        let Some(scorer) = self.scorer.as_deref_mut() else { return indices.collect() };
        let left = self.left[self.moves.len()];
        let resource = problem.plan.steps[at].resource;
        let scored = indices.filter_map(|index| {
            let made = problem.attempt(at, index, &handed_down, placed.hardware)?;
            let next = placed.with(resource, &made.set);
            Some((scorer.bound(&next, left), scorer.hits(&next), index))
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort_unstable();
        scored.into_iter().map(|(.., index)| index).collect()
    }

    fn state(&self, place: usize, handed_down: HandDown, free: CoreSet) -> State {
        if self.inside_devices[place] {
            State::Runs(place, free_runs::lengths(self.problem.topology, free))
        } else {
            State::Exact(place, free, handed_down)
        }
    }
}
