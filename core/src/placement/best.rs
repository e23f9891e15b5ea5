//! The best placement by the keys, among all: depth first in the order of key 6, cutting off what cannot
//! beat the best one met so far. Called by `place` for pods of few containers.

use std::rc::Rc;

use super::hand_down::Handed;
use super::keys::{Bound, Scorer, Tally};
use super::plan::Amount;
use super::search::{Move, Problem};

/// How many moves are tried, a second or two of them, before the best placement met so far is the answer. Three
/// containers under the documented policy take up to some 4,000,000 (1,500 random nodes and pods); the thousands
/// of linked sets of a torus would take minutes.
const MOST_TRIED: u32 = 10_000_000;

/// The best placement as one move per step. `known` is any placement of the same problem: nothing worse
/// is looked at.
pub(super) fn best(problem: &Problem<'_>, scorer: &mut Scorer, known: Vec<Move>) -> Vec<Move> {
    let steps = &problem.plan.steps;
    let tally = (steps.iter().zip(&known)).fold(Tally::default(), |t, (s, m)| t.with(s.resource, &m.set));
    let mut left = vec![Amount::default(); steps.len()];
    for at in (1..steps.len()).rev() {
        left[at - 1] = left[at].with(&steps[at]);
    }
    let keys = (scorer.bound(&tally, Amount::default()), scorer.hits(&tally));
    let mut search = Best {
        problem,
        scorer,
        left,
        twins: problem.plan.twins(),
        handed: vec![Handed::default(); problem.plan.chains],
        path: Vec::with_capacity(steps.len()),
        keys,
        found: None,
        tries: MOST_TRIED,
    };
    search.descend(Tally::default());
    search.found.unwrap_or(known)
}

struct Best<'p> {
    problem: &'p Problem<'p>,
    scorer: &'p mut Scorer,
    /// What is still to take after each step.
    left: Vec<Amount>,
    twins: Vec<Option<usize>>,
    /// By chain.
    handed: Vec<Handed>,
    /// Choice and move of each step so far.
    path: Vec<(usize, Move)>,
    /// Keys 1 to 5 to beat, or to equal while nothing is found.
    keys: (Bound, Rc<[u32]>),
    found: Option<Vec<Move>>,
    /// Moves that may still be tried.
    tries: u32,
}

impl Best<'_> {
    fn descend(&mut self, tally: Tally) {
        let at = self.path.len();
        let Some(&step) = self.problem.plan.steps.get(at) else {
            self.keys = (self.scorer.bound(&tally, Amount::default()), self.scorer.hits(&tally));
            self.found = Some(self.path.iter().map(|(_, taken)| *taken).collect());
            return;
        };
        let handed = self.handed[step.chain];
        // Two steps that ask for the same may swap their sets: only the order with the lower ids first counts.
        let from = self.twins[at].map_or(0, |twin| self.path[twin].0 + 1);
        for choice in from..self.problem.choices(at) {
            if self.tries == 0 {
                return;
            }
            self.tries -= 1;
            let Some(taken) = self.problem.attempt(at, choice, &handed, tally.hardware) else { continue };
            let next = tally.with(step.resource, &taken.set);
            if !self.may_win(&next, at) {
                continue;
            }
            self.handed[step.chain] = taken.after;
            self.path.push((choice, taken));
            self.descend(next);
            self.path.pop();
            self.handed[step.chain] = handed;
        }
    }

    /// Whether a placement that begins like this can still come before the best one. Sets are tried in the
    /// order of their ids, so of equal placements the one found first is first by key 6 too.
    fn may_win(&mut self, tally: &Tally, at: usize) -> bool {
        let bound = self.scorer.bound(tally, self.left[at]);
        let order = bound.cmp(&self.keys.0).then_with(|| {
            // With keys 1 to 4 equal, this many wholly free devices are touched in the end.
            let free_devices = self.problem.plan.fresh.devices + bound[0];
            self.scorer.hits_in_the_end(tally, free_devices).cmp(&self.keys.1)
        });
        order.is_lt() || (order.is_eq() && self.found.is_none())
    }
}
