//! A pod's author chooses its containers: no question about a pod takes long, and what is given up says so.
//! Without the budget the first test takes hours.

use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{
    EqualNodes, Ranks, Refusal, SearchCost, Turn, best_set_of_pod, fits, place, place_counted,
};
use neuron_core::request::PodRequest;
use neuron_core::topology::{Policy, Topology};
use proptest::prelude::*;

use super::support::{Role, cores, devices, node_at, pod};

/// Moves of one question (`MOVES`).
const MOVES: u32 = 200_000;

/// Moves in which a machine is ranked (`MOVES_OF_NODE`).
const MOVES_OF_RANK: u32 = 20_000;

/// One core handed down to an app, sixteen apps of three cores, and two cores for which nothing is left that is linked.
fn hostile() -> PodRequest {
    let mut containers = vec![(Role::Init, 0, 1), (Role::App, 0, 1)];
    containers.extend([(Role::App, 0, 3); 16]);
    containers.push((Role::App, 0, 2));
    pod(&containers)
}

#[test]
fn a_pod_that_would_be_searched_for_for_minutes_is_refused_as_not_decided() {
    let empty = node_at("trn2.48xlarge", 2, Policy::Documented, "", "");
    let request = hostile();
    for answer in [fits(&request, &empty), place(&request, &empty).map(drop)] {
        let refusal = answer.unwrap_err();
        assert_eq!(refusal, Refusal::NotDecided { containers: 19 });
        assert!(!refusal.is_permanent(), "another node may have less to search");
        assert_eq!(
            refusal.to_string(),
            "not decided: there are too many ways to place the pod's 19 Neuron containers; ask in fewer containers or for whole devices"
        );
    }
}

#[test]
fn what_an_empty_machine_does_not_decide_is_searched_for_once_for_all_of_its_type() {
    let empty = node_at("trn2.48xlarge", 2, Policy::Documented, "", "");
    let mut held = empty.clone();
    held.hold(CoreSet::single(0));
    let request = hostile();
    let mut equal_nodes = EqualNodes::new(&request);
    for node in [&empty, &held, &empty] {
        assert_eq!(equal_nodes.fits(node), Err(Refusal::NotDecided { containers: 19 }));
    }
    assert_eq!(equal_nodes.cost(), SearchCost { moves: MOVES, given_up: 1 });
}

#[test]
fn what_placing_a_pod_took_is_told() {
    let empty = node_at("trn2.48xlarge", 2, Policy::Documented, "", "");
    let (refused, cost) = place_counted(&hostile(), &empty);
    assert_eq!(refused.unwrap_err(), Refusal::NotDecided { containers: 19 });
    // A good placement is searched for, then any.
    assert_eq!(cost, SearchCost { moves: 2 * MOVES, given_up: 2 });

    let ordinary = pod(&[devices(4), cores(2)]);
    let (placed, cost) = place_counted(&ordinary, &empty);
    assert_eq!(placed, place(&ordinary, &empty));
    assert!((1..1_000).contains(&cost.moves) && cost.given_up == 0, "{cost:?}");

    // Thousands of sets are linked: the best placement of three is not found in time, but a good one is.
    let torus = node_at("trn1.32xlarge", 1, Policy::Linked, "", "");
    let (placed, cost) = place_counted(&pod(&[devices(4); 3]), &torus);
    assert!(placed.is_ok() && cost.moves > MOVES && cost.given_up == 1, "{placed:?} {cost:?}");
}

/// A search goes as deep as a pod has containers, and the stack does not.
#[test]
fn a_pod_of_too_many_containers_is_ranked_nowhere_and_no_set_is_preferred_for_it() {
    let empty = node_at("trn2.48xlarge", 2, Policy::Documented, "", "");
    let request = pod(&[(Role::Init, 0, 1); 20_000]);
    let mut ranks = Ranks::new(&request);
    assert!(ranks.rank(&empty).is_none());
    assert_eq!(ranks.cost(), SearchCost::default());
    let within = empty.free_cores();
    let turn = Turn {
        request: &request,
        given: &[],
        container: 0,
        resource: Resource::Core,
        must: CoreSet::EMPTY,
        within,
    };
    assert_eq!(best_set_of_pod(&empty, &turn), None);
}

/// Any node under policy `documented`, held in part by whole devices and by single cores, with devices that are unhealthy.
fn node() -> impl Strategy<Value = Occupancy> {
    node_of(Catalog::embedded().types().iter().map(|model| model.name.clone()).collect())
}

fn node_of(types: Vec<String>) -> impl Strategy<Value = Occupancy> {
    let bits = (any::<u128>(), any::<u128>(), any::<u64>(), any::<u64>());
    let parts = (prop::sample::select(types), 1u8..=2, bits, 0u8..3);
    parts.prop_filter_map("no such LNC", |(name, lnc, (some, others, broken, fewer), density)| {
        let model = Catalog::embedded().find(&name)?;
        let topology = Topology::of(model, lnc, Policy::Documented).ok()?;
        let mut node = Occupancy::empty(Arc::new(topology));
        let held = [some & others, some, 0][usize::from(density)];
        node.hold(CoreSet::from_bits(held).intersection(node.topology().all_cores()));
        node.set_unhealthy(DeviceSet::from_bits(broken & fewer).intersection(node.topology().all_devices()));
        Some(node)
    })
}

/// A role, devices and cores.
type Requested = (Role, u32, u32);

fn role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Init, Role::Sidecar, Role::App, Role::App])
}

/// Containers that ask for anything small, in any roles.
fn any_containers() -> impl Strategy<Value = Vec<Requested>> {
    let amount = prop_oneof![
        6 => (Just(0u32), 1u32..6),
        2 => (1u32..3, Just(0u32)),
        1 => (1u32..3, 1u32..4),
        1 => prop::sample::select(vec![(4, 0), (8, 0), (0, 8), (0, 9), (0, 16)]),
    ];
    let container = (role(), amount).prop_map(|(role, (devices, cores))| (role, devices, cores));
    prop::collection::vec(container, 5..=128)
}

/// Containers that together ask for about as many cores as a machine has, most of them equally many, which no device's cores divide into:
/// what is left over is to be found by trying.
fn nearly_all_cores() -> impl Strategy<Value = Vec<Requested>> {
    let odd = prop::collection::vec((role(), Just(0u32), 1u32..5), 2..8);
    (2u32..6, 8u32..=128, odd).prop_map(|(each, of_all, mut containers)| {
        let taken: u32 = containers.iter().map(|(_, _, cores)| cores).sum();
        let equal = (of_all.saturating_sub(taken) / each).clamp(3, 120) as usize;
        containers.extend(vec![cores(each); equal]);
        containers
    })
}

/// Asks about a node whether the pod fits, and how well.
fn assert_bounded(node: &Occupancy, mut containers: Vec<Requested>) -> Result<(), TestCaseError> {
    // kubelet starts app containers last.
    containers.sort_by_key(|(role, ..)| *role == Role::App);
    prop_assert!((5..=128).contains(&containers.len()));
    let request = pod(&containers);

    let mut equal_nodes = EqualNodes::new(&request);
    let answer = equal_nodes.fits(node);
    let SearchCost { moves, given_up } = equal_nodes.cost();
    // What an empty machine of the type answers is one question, what this one answers another.
    prop_assert!(moves <= 2 * MOVES, "{moves} moves");
    let is_decided = !matches!(answer, Err(Refusal::NotDecided { .. }));
    prop_assert!(is_decided || given_up > 0, "{answer:?} though nothing was given up");
    prop_assert_eq!(equal_nodes.fits(node), answer.clone());
    prop_assert_eq!(
        equal_nodes.cost(),
        SearchCost { moves, given_up },
        "an equal node is searched for again"
    );

    let mut ranks = Ranks::new(&request);
    let rank = ranks.rank(node);
    prop_assert!(ranks.cost().moves <= MOVES_OF_RANK, "{:?}", ranks.cost());
    prop_assert!(rank.is_none() || answer.is_ok() || given_up > 0, "a rank for what is refused: {answer:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..crate::config() })]

    #[test]
    fn many_containers_cost_no_more_moves_than_a_question_may(node in node(), containers in any_containers()) {
        assert_bounded(&node, containers)?;
    }

    /// Devices of eight cores, or four, into which most counts do not divide.
    #[test]
    fn containers_that_fill_a_machine_cost_no_more_moves_than_a_question_may(
        node in node_of(vec!["trn2.48xlarge".to_owned(), "trn2.3xlarge".to_owned(), "inf1.24xlarge".to_owned()]),
        containers in nearly_all_cores(),
    ) {
        assert_bounded(&node, containers)?;
    }
}

proptest! {
    #![proptest_config(crate::config())]

    /// Every shape of up to four containers that ask: a role, a resource or both, and counts that the type gives.
    #[test]
    fn pods_of_up_to_four_containers_are_always_decided(
        node in node(),
        requests in prop::collection::vec((0usize..3, 0usize..3, any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..=4),
    ) {
        let topology = node.topology();
        let (device_counts, core_counts) = (topology.device_counts(), topology.core_counts());
        let containers: Vec<_> = requests
            .into_iter()
            .map(|(role, resources, some_devices, some_cores)| {
                let (of_devices, of_cores) =
                    (u32::from(*some_devices.get(device_counts)), u32::from(*some_cores.get(&core_counts)));
                let (_, own_devices, own_cores) = match resources {
                    0 => devices(of_devices),
                    1 => cores(of_cores),
                    _ => (Role::App, of_devices, of_cores),
                };
                ([Role::App, Role::Init, Role::Sidecar][role], own_devices, own_cores)
            })
            .collect();
        let request = pod(&containers);
        let is_decided = |answer: Result<(), Refusal>| !matches!(answer, Err(Refusal::NotDecided { .. }));
        prop_assert!(is_decided(fits(&request, &node)));
        prop_assert!(is_decided(place(&request, &node).map(drop)));
    }
}
