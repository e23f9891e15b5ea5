//! A pod on one node as a search problem: the steps to place and the moves that each step has. Read by both searches.

use super::budget::LOOKS_OF_A_MOVE;
use super::free_sets::{FreeSet, FreeSets};
use super::hand_down::HandDown;
use super::plan::Plan;
use crate::ids::CoreSet;
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::request::PodRequest;
use crate::topology::Topology;

/// A pod's steps on one node, with the free candidate sets of each.
pub(super) struct Problem<'a> {
    /// The pod's steps.
    pub(super) plan: Plan,
    /// The node's.
    pub(super) topology: &'a Topology,
    /// The node's free cores before anything is placed.
    pub(super) free: CoreSet,
    /// Free candidate sets of each requested count; steps that request the same share one entry.
    free_sets: Vec<FreeSets>,
    /// Index in `free_sets`; index is the step.
    sets_of_step: Vec<usize>,
    kubelets_choice: KubeletsChoice,
    /// What steps have been given already; index is the step. Empty before the pod's admission.
    given: Vec<Option<CoreSet>>,
    /// All of that.
    given_cores: CoreSet,
    /// The step that takes some of its count's sets only, if one does.
    asking: Option<usize>,
}

/// What is assumed of kubelet's free choice among handed-down ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KubeletsChoice {
    /// It may choose any ids, so every choice has to be a candidate set: the rule.
    Any,
    /// It chooses a candidate set: asked only to find out which refusal is the reason.
    Good,
}

/// What one step gives its container.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    /// What the container gets.
    pub(super) set: FreeSet,
    /// Whether kubelet chooses at least some of the ids itself.
    pub(super) provisional: bool,
    /// What the step's chain hands down from now on.
    pub(super) after: HandDown,
}

impl<'a> Problem<'a> {
    /// Nothing if the node has too little free or some requested count has no free candidate set.
    pub(super) fn new(
        request: &PodRequest,
        occupancy: &'a Occupancy,
        kubelets_choice: KubeletsChoice,
    ) -> Option<Problem<'a>> {
        let plan = Plan::of(request);
        if !plan.enough_is_free(occupancy) {
            return None;
        }
        Problem::of_plan(plan, occupancy, kubelets_choice)
    }

    /// The same of a plan for which the node has enough free.
    pub(super) fn of_plan(
        plan: Plan,
        occupancy: &'a Occupancy,
        kubelets_choice: KubeletsChoice,
    ) -> Option<Problem<'a>> {
        Problem::of(plan, occupancy, occupancy.free_cores(), kubelets_choice)
    }

    /// The rest of a pod of which steps have been given sets already. The step `asking` takes a set that has the cores `must` and
    /// lies in `allowed`. Nothing if some count has no candidate set.
    pub(super) fn amid_admission(
        request: &PodRequest,
        occupancy: &'a Occupancy,
        given: &[(usize, CoreSet)],
        (asking, must, allowed): (usize, CoreSet, CoreSet),
    ) -> Option<Problem<'a>> {
        let plan = Plan::of(request);
        let given_cores = given.iter().fold(CoreSet::EMPTY, |all, (_, cores)| all.union(*cores));
        let free = occupancy.free_cores().union(given_cores);
        let mut of_step = vec![None; plan.steps.len()];
        for (step, cores) in given {
            of_step[*step] = Some(*cores);
        }
        let mut problem = Problem::of(plan, occupancy, free, KubeletsChoice::Any)?;
        let mut sets = problem.sets(asking).clone();
        sets.sets.retain(|set| must.is_subset(set.cores) && set.cores.is_subset(allowed));
        problem.sets_of_step[asking] = problem.free_sets.len();
        problem.free_sets.push(sets);
        Some(Problem { given: of_step, given_cores, asking: Some(asking), ..problem })
    }

    fn of(
        plan: Plan,
        occupancy: &'a Occupancy,
        free: CoreSet,
        kubelets_choice: KubeletsChoice,
    ) -> Option<Problem<'a>> {
        let topology = occupancy.topology().as_ref();
        let mut requested: Vec<(Resource, u32)> = Vec::new();
        let mut free_sets = Vec::new();
        let mut sets_of_step = Vec::with_capacity(plan.steps.len());
        for step in &plan.steps {
            let same = |other: &(Resource, u32)| *other == (step.resource, step.count);
            let index = requested.iter().position(same).unwrap_or(requested.len());
            if index == requested.len() {
                let sets = FreeSets::new(topology, step.resource, step.count, free);
                if sets.sets.is_empty() {
                    return None;
                }
                requested.push((step.resource, step.count));
                free_sets.push(sets);
            }
            sets_of_step.push(index);
        }
        let (given, given_cores) = (vec![None; plan.steps.len()], CoreSet::EMPTY);
        Some(Problem {
            plan,
            topology,
            free,
            free_sets,
            sets_of_step,
            kubelets_choice,
            given,
            given_cores,
            asking: None,
        })
    }

    /// Whether any free set of its count serves a step, whichever that is.
    pub(super) fn takes_any_set(&self, step: usize) -> bool {
        self.given[step].is_none() && self.asking != Some(step)
    }

    /// The free candidate sets of a step's count.
    pub(super) fn sets(&self, step: usize) -> &FreeSets {
        &self.free_sets[self.sets_of_step[step]]
    }

    /// Number of moves to try at a step: one where kubelet chooses or has chosen, else one for each free candidate set.
    pub(super) fn moves(&self, step: usize) -> usize {
        let is_chosen = self.plan.steps[step].fresh() == 0 || self.given[step].is_some();
        if is_chosen { 1 } else { self.sets(step).sets.len() }
    }

    /// What it costs to try all moves of a step. Whether each choice that kubelet has is allowed is told by looking at all sets.
    pub(super) fn cost(&self, step: usize, handed_down: &HandDown) -> usize {
        let chooses = handed_down.is_open() || self.plan.steps[step].fresh() == 0;
        let looks = if chooses { self.sets(step).sets.len() / LOOKS_OF_A_MOVE } else { 0 };
        self.moves(step).saturating_mul(1 + looks)
    }

    /// The step's move of this index, below [`Problem::moves`], given what its chain has handed down and which cores the pod
    /// has taken already; nothing if it is not possible.
    pub(super) fn attempt(
        &self,
        step: usize,
        index: usize,
        handed_down: &HandDown,
        taken: CoreSet,
    ) -> Option<Move> {
        let (sets, given) = (self.sets(step), self.given[step]);
        let step = &self.plan.steps[step];
        if let Some(cores) = given {
            let set = FreeSet::new(self.topology, step.resource, cores);
            return Some(Move { set, provisional: false, after: handed_down.given(cores, step.keeps) });
        }
        let is_safe = |handed_down: &HandDown| {
            self.kubelets_choice == KubeletsChoice::Good || handed_down.is_safe(step.count, sets)
        };
        if step.fresh() == 0 {
            if !is_safe(handed_down) {
                return None;
            }
            let cores = handed_down.lowest(step.count, sets.cores_per_id);
            let set = FreeSet::new(self.topology, step.resource, cores);
            let after = if step.keeps { handed_down.without(cores, sets.cores_per_id) } else { *handed_down };
            let provisional = handed_down.is_open() || step.count < step.handed_down;
            return Some(Move { set, provisional, after });
        }
        let set = sets.sets.get(index)?;
        let base = handed_down.provisional();
        if !base.is_subset(set.cores) || set.cores.difference(base).intersects(taken.union(self.given_cores))
        {
            return None;
        }
        let grown = handed_down.grown(set.cores);
        if handed_down.is_open() && !is_safe(&grown) {
            return None;
        }
        let after = if step.keeps { HandDown::default() } else { grown };
        Some(Move { set: *set, provisional: handed_down.is_open(), after })
    }
}
