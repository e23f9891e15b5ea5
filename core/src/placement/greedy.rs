//! Greedy placement: each step, largest first, takes the first free set, or the one that looks best, without a step back. The depth-first
//! search meets the same placement first for a pod that hands nothing down. `fits` and the ranks try this before they list a search's sets.

use super::budget::{Budget, LOOKS_OF_A_MOVE};
use super::free_sets::{FreeSet, candidates, free_sets};
use super::keys::{PartialPlacement, Scorer};
use super::plan::{Amount, Plan, Step};
use crate::occupancy::Occupancy;

/// A pod of more steps is searched for at once: three containers that request both resources have as many.
const MAX_STEPS: usize = 6;

/// Whether the pod fits with the first free set for each step. Where it does not, it may fit all the same.
pub(super) fn fits(plan: &Plan, occupancy: &Occupancy, budget: &Budget) -> bool {
    let looks = |step: &Step| candidates(occupancy.topology(), step.resource, step.count);
    let placed = place(plan, occupancy, |step, placed, _| {
        budget.take(1 + looks(step) / LOOKS_OF_A_MOVE)?;
        free_beside(occupancy, step, placed).next()
    });
    placed.is_some()
}

/// The pod with the set that looks best by the keys for each step. Where it does not fit like this, it may fit
/// all the same.
pub(super) fn best(
    plan: &Plan,
    occupancy: &Occupancy,
    scorer: &mut Scorer,
    budget: &Budget,
) -> Option<PartialPlacement> {
    place(plan, occupancy, |step, placed, later| {
        let left = later.iter().fold(Amount::default(), |left, &at| left.with(&plan.steps[at]));
        // Each set that is scored is a move, and none is scored without one.
        let sets = free_beside(occupancy, step, placed).take_while(|_| budget.take(1).is_some());
        let best = scorer.best(sets, step.resource, placed, left);
        best.filter(|_| !budget.is_spent())
    })
}

/// Gives each step what `choose` takes for it beside what is placed, and with these steps still to place.
fn place(
    plan: &Plan,
    occupancy: &Occupancy,
    mut choose: impl FnMut(&Step, &PartialPlacement, &[usize]) -> Option<FreeSet>,
) -> Option<PartialPlacement> {
    if plan.hands_down() || plan.steps.len() > MAX_STEPS {
        return None;
    }
    let order = plan.largest_first(occupancy.topology());
    let mut placed = PartialPlacement::default();
    let mut rest = order.as_slice();
    while let Some((&at, later)) = rest.split_first() {
        let step = &plan.steps[at];
        placed = placed.with(step.resource, &choose(step, &placed, later)?);
        rest = later;
    }
    Some(placed)
}

/// The free sets of a step's count that what is placed leaves.
fn free_beside(
    occupancy: &Occupancy,
    step: &Step,
    placed: &PartialPlacement,
) -> impl Iterator<Item = FreeSet> {
    let free = occupancy.free_cores().difference(placed.hardware);
    free_sets(occupancy.topology(), step.resource, step.count, free)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;
    use crate::catalog::Catalog;
    use crate::ids::{CoreSet, DeviceSet};
    use crate::names::Resource;
    use crate::placement::depth_first;
    use crate::placement::problem::{KubeletsChoice, Problem};
    use crate::request::{ContainerRequest, PodRequest, Role};
    use crate::topology::{Policy, Topology};

    /// A role, devices and cores.
    type Requested = (Role, u32, u32);

    fn plan(containers: &[Requested]) -> Plan {
        let container = |(role, devices, cores)| ContainerRequest { name: "c".into(), role, devices, cores };
        Plan::of(&PodRequest { containers: containers.iter().copied().map(container).collect() })
    }

    fn empty(instance_type: &str, lnc: u8, policy: Policy) -> Option<Occupancy> {
        let model = Catalog::embedded().find(instance_type)?;
        Some(Occupancy::empty(Arc::new(Topology::of(model, lnc, policy).ok()?)))
    }

    fn node() -> impl Strategy<Value = Occupancy> {
        let models = Catalog::embedded().types().iter().map(|model| model.name.clone());
        let topology = (prop::sample::select(models.collect::<Vec<_>>()), 1u8..=2, any::<bool>());
        let held = (any::<u128>(), any::<u128>(), any::<bool>());
        (topology, held, any::<u64>()).prop_filter_map("no such LNC", |(topology, held, broken)| {
            let (instance_type, lnc, is_linked) = topology;
            let policy = if is_linked { Policy::Linked } else { Policy::Documented };
            let mut node = empty(&instance_type, lnc, policy)?;
            let (some, others, is_dense) = held;
            let held = if is_dense { some } else { some & others };
            node.hold(CoreSet::from_bits(held).intersection(node.topology().all_cores()));
            // One device in eight.
            let unhealthy = DeviceSet::from_bits(broken & broken >> 21 & broken >> 42);
            node.set_unhealthy(unhealthy.intersection(node.topology().all_devices()));
            Some(node)
        })
    }

    fn containers() -> impl Strategy<Value = Vec<Requested>> {
        let role = prop::sample::select(vec![Role::App, Role::App, Role::App, Role::Sidecar, Role::Init]);
        let amounts = prop_oneof![(Just(0), 1u32..10), (1u32..5, Just(0)), (1u32..3, 1u32..3)];
        let container = (role, amounts).prop_map(|(role, (devices, cores))| (role, devices, cores));
        prop::collection::vec(container, 1..5)
    }

    /// Whether each step in turn, the largest first, finds any free set.
    fn takes_first_free_sets(plan: &Plan, node: &Occupancy) -> bool {
        let mut node = node.clone();
        !plan.hands_down()
            && plan.steps.len() <= MAX_STEPS
            && plan.largest_first(node.topology()).into_iter().all(|at| {
                let Step { resource, count, .. } = plan.steps[at];
                let first = free_sets(node.topology(), resource, count, node.free_cores()).next();
                first.inspect(|set| node.hold(set.cores)).is_some()
            })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_is_what_the_search_finds(node in node(), containers in containers()) {
            let (plan, budget) = (plan(&containers), Budget::of_question());
            if !plan.enough_is_free(&node) {
                return Ok(());
            }
            let problem = Problem::of_plan(plan.clone(), &node, KubeletsChoice::Any);
            let found = |scorer: Option<&mut Scorer>| depth_first::find(problem.as_ref()?, scorer, &budget);
            let fits = fits(&plan, &node, &budget);
            let mut scorer = Scorer::new(&node);
            let best = best(&plan, &node, &mut scorer, &budget);
            prop_assert!(!fits || found(None).is_some());
            if let Some(placed) = best {
                let moves = found(Some(&mut Scorer::new(&node))).unwrap();
                let searched = PartialPlacement::of(&plan, &moves);
                prop_assert_eq!((placed.hardware, placed.devices()), (searched.hardware, searched.devices()));
                prop_assert_eq!(scorer.keys(&placed), scorer.keys(&searched));
            }
            prop_assert_eq!(fits, takes_first_free_sets(&plan, &node));
            if plan.steps.len() == 1 {
                prop_assert_eq!((fits, best.is_some()), (problem.is_some(), problem.is_some()));
            }
        }
    }

    #[rstest]
    #[case::two(&[(Role::App, 4, 0), (Role::App, 0, 2)])]
    #[case::both_in_each_of_three(&[(Role::App, 1, 2), (Role::Sidecar, 1, 1), (Role::App, 4, 3)])]
    fn an_empty_machine_takes_an_ordinary_pod_at_once(#[case] containers: &[Requested]) {
        let (plan, node) = (plan(containers), empty("trn2.48xlarge", 2, Policy::Documented).unwrap());
        let steps = u32::try_from(plan.steps.len()).unwrap();
        let (of_first, of_best) = (Budget::of_question(), Budget::of_question());
        assert!(fits(&plan, &node, &of_first));
        assert!((steps..=2 * steps).contains(&of_first.used()), "{} moves", of_first.used());
        assert!(best(&plan, &node, &mut Scorer::new(&node), &of_best).is_some());
        assert!((steps..=64 * steps).contains(&of_best.used()), "{} moves", of_best.used());
    }

    #[test]
    fn each_set_that_is_scored_costs_a_move() {
        let (plan, node) = (plan(&[(Role::App, 8, 0)]), empty("trn1.32xlarge", 1, Policy::Linked).unwrap());
        let sets = u32::try_from(candidates(node.topology(), Resource::Device, 8)).unwrap();
        assert!(sets > 1_000, "{sets} sets");
        for (moves, is_found) in [(sets, true), (sets - 1, false)] {
            let budget = Budget::of(moves);
            assert_eq!(best(&plan, &node, &mut Scorer::new(&node), &budget).is_some(), is_found);
            assert_eq!((budget.used(), budget.is_spent()), (moves, !is_found));
        }
    }
}
