//! The search for the best placement by the keys: depth first in the order of key 6, skipping what cannot beat the
//! best placement met so far. Called by `place` for pods of few containers.

use std::rc::Rc;

use super::budget::Budget;
use super::hand_down::HandDown;
use super::keys::{Bound, PartialPlacement, Scorer};
use super::plan::Amount;
use super::problem::{Move, Problem};

/// The best placement, as one move for each step. `known` is any placement of the same problem: nothing worse is
/// looked at. Once the budget is spent the best met so far is the answer, since the extender binds nothing else meanwhile: three large
/// containers under the documented policy may need some 4,000,000 moves (1,500 random nodes and pods), the thousands of linked sets of a
/// torus minutes.
pub(super) fn best(
    problem: &Problem<'_>,
    scorer: &mut Scorer,
    known: Vec<Move>,
    budget: &Budget,
) -> Vec<Move> {
    let steps = &problem.plan.steps;
    let placed = PartialPlacement::of(&problem.plan, &known);
    let mut left = vec![Amount::default(); steps.len()];
    for at in (1..steps.len()).rev() {
        left[at - 1] = left[at].with(&steps[at]);
    }
    let keys = (scorer.bound(&placed, Amount::default()), scorer.hits(&placed));
    let mut search = BranchAndBound {
        problem,
        scorer,
        left,
        interchangeable: problem.plan.interchangeable(),
        handed_down: vec![HandDown::default(); problem.plan.chains],
        path: Vec::with_capacity(steps.len()),
        keys,
        found: None,
        budget,
    };
    search.descend(PartialPlacement::default());
    search.found.unwrap_or(known)
}

struct BranchAndBound<'p> {
    problem: &'p Problem<'p>,
    scorer: &'p mut Scorer,
    /// What is still to place after each step.
    left: Vec<Amount>,
    /// The step before each step with which it may swap sets; the index is the step's.
    interchangeable: Vec<Option<usize>>,
    /// What the steps of the path hand down, by the chain's number.
    handed_down: Vec<HandDown>,
    /// Index and move of each step so far.
    path: Vec<(usize, Move)>,
    /// Keys 1 to 5 to beat, or to equal while nothing is found.
    keys: (Bound, Rc<[u32]>),
    found: Option<Vec<Move>>,
    budget: &'p Budget,
}

impl BranchAndBound<'_> {
    fn descend(&mut self, placed: PartialPlacement) {
        let at = self.path.len();
        let Some(&step) = self.problem.plan.steps.get(at) else {
            self.keys = (self.scorer.bound(&placed, Amount::default()), self.scorer.hits(&placed));
            self.found = Some(self.path.iter().map(|(_, made)| *made).collect());
            return;
        };
        let handed_down = self.handed_down[step.chain];
        // Only the order with the lower ids first is tried of two interchangeable sets.
        let from = self.interchangeable[at].map_or(0, |earlier| self.path[earlier].0 + 1);
        for index in from..self.problem.moves(at) {
            if self.budget.take(1).is_none() {
                return;
            }
            let Some(made) = self.problem.attempt(at, index, &handed_down, placed.hardware) else { continue };
            let next = placed.with(step.resource, &made.set);
            if !self.may_win(&next, at) {
                continue;
            }
            self.handed_down[step.chain] = made.after;
            self.path.push((index, made));
            self.descend(next);
            self.path.pop();
            self.handed_down[step.chain] = handed_down;
        }
    }

    /// Whether a placement that begins like this can still come before the best one. Sets are tried in the order of
    /// their ids, so of placements that are equal by keys 1 to 5 the one found first is first by key 6, too.
    fn may_win(&mut self, placed: &PartialPlacement, at: usize) -> bool {
        let bound = self.scorer.bound(placed, self.left[at]);
        let order = bound.cmp(&self.keys.0).then_with(|| {
            // This many wholly free devices are touched in the end, since keys 1 to 4 are equal.
            let free_devices = self.problem.plan.fresh.devices + bound[0];
            self.scorer.hits_in_the_end(placed, free_devices).cmp(&self.keys.1)
        });
        order.is_lt() || (order.is_eq() && self.found.is_none())
    }
}
