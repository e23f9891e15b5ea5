//! The set preferred for one container amid its pod's admission leaves a set to each container after it.

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Given, Turn, best_set, best_set_of_pod, fits};
use neuron_core::request::PodRequest;
use proptest::prelude::*;

use super::support::Role::{App, Init};
use super::support::{Role, TestNode, node, node_with, pod};

/// What kubelet gives the containers in turn, choosing at random among what is handed down and asking for the rest, in either order of
/// the resources; `prefer` answers.
fn admitted(
    request: &PodRequest,
    node: &Occupancy,
    mut random: u64,
    prefer: impl Fn(&Turn<'_>) -> Option<CoreSet>,
) -> Result<Vec<Given>, String> {
    let topology = node.topology();
    let mut given: Vec<Given> = Vec::new();
    let mut handed_down = [CoreSet::EMPTY; 2];
    for (container, requested) in request.containers.iter().enumerate() {
        let mut order = Resource::ALL;
        order.rotate_left(usize::try_from(random % 2).unwrap());
        for resource in order.into_iter().filter(|resource| requested.count(*resource) > 0) {
            let (count, handed) = (requested.count(resource), handed_down[resource as usize]);
            let ids_of = |cores: CoreSet| -> Vec<CoreSet> {
                match resource {
                    Resource::Device => topology
                        .devices_of(cores)
                        .iter()
                        .map(|id| topology.cores_of(DeviceSet::single(id)))
                        .collect(),
                    Resource::Core => cores.iter().map(CoreSet::single).collect(),
                }
            };
            let mut reusable = ids_of(handed);
            let cores = if reusable.len() >= count as usize {
                let chosen = (0..count).map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = usize::try_from(random >> 33).unwrap() % reusable.len();
                    reusable.remove(at)
                });
                chosen.fold(CoreSet::EMPTY, CoreSet::union)
            } else {
                let taken = given.iter().fold(CoreSet::EMPTY, |all, (_, _, cores)| all.union(*cores));
                let within = node.free_cores().difference(taken);
                let turn = Turn { request, given: &given, container, resource, must: handed, within };
                let cores = prefer(&turn).ok_or_else(|| format!("{turn:?}"))?;
                assert!(
                    handed.is_subset(cores) && cores.is_subset(handed.union(within)),
                    "{cores} of {turn:?}"
                );
                assert_eq!(ids_of(cores).len(), count as usize);
                cores
            };
            let left = &mut handed_down[resource as usize];
            *left = if requested.role == Role::Init { left.union(cores) } else { left.difference(cores) };
            given.push((container, resource, cores));
        }
    }
    Ok(given)
}

#[test]
fn an_init_container_gets_what_its_main_container_can_keep() {
    // Devices 9, 10 and 11 are free, and 4 to 7: two of the three would hit the fewest linked sets.
    let ring = node_with("inf2.48xlarge", "0,1,2,3,4,5,6,7,16,17", "");
    let request = pod(&[(Init, 2, 0), (Init, 4, 0)]);
    let alone = |turn: &Turn<'_>| {
        let count = request.containers[turn.container].devices;
        best_set(&ring, turn.resource, count, turn.must, turn.within)
    };
    assert!(admitted(&request, &ring, 0, alone).is_err(), "each container by itself");
    let given = admitted(&request, &ring, 0, |turn| best_set_of_pod(&ring, turn)).unwrap();
    assert_eq!(given[1].2.to_string(), "8,9,10,11,12,13,14,15");
}

#[test]
fn a_container_that_cannot_be_followed_gets_nothing() {
    let ring = node_with("inf2.48xlarge", "2,3,8,9,14,15,20,21", "");
    let (request, none) = (pod(&[(App, 2, 0), (App, 3, 0)]), CoreSet::EMPTY);
    let turn = |request| Turn {
        request,
        given: &[],
        container: 0,
        resource: Resource::Device,
        must: none,
        within: ring.free_cores(),
    };
    assert_eq!(best_set_of_pod(&ring, &turn(&request)), None);
    let (request, empty) = (pod(&[(App, 2, 0), (App, 1, 0)]), node("inf2.48xlarge"));
    assert!(best_set_of_pod(&ring, &turn(&request)).is_some());
    let other = Turn { container: 7, ..turn(&request) };
    assert_eq!(best_set_of_pod(&empty, &other), None, "no such container");
}

#[test]
fn a_container_that_is_offered_a_part_leaves_the_rest_to_the_others() {
    // Whole devices 0 and 1 are free, and kubelet offers cores of the first alone.
    let node = node_with("inf1.6xlarge", "8,9,10,11,12,13,14,15", "");
    let request = pod(&[(App, 0, 2), (App, 1, 0)]);
    let turn = Turn {
        request: &request,
        given: &[],
        container: 0,
        resource: Resource::Core,
        must: CoreSet::EMPTY,
        within: "0,1,2,3".parse().unwrap(),
    };
    assert_eq!(best_set_of_pod(&node, &turn).unwrap().to_string(), "0,1");
}

fn pods() -> impl Strategy<Value = Vec<(Role, u32, u32)>> {
    let count =
        prop_oneof![4 => Just(0u32), 3 => Just(1), 2 => Just(2), 1 => Just(3), 1 => Just(4), 1 => Just(8)];
    let role = prop::sample::select(vec![Role::Init, Role::Init, Role::Sidecar, Role::App, Role::App]);
    prop::collection::vec((role, count.clone(), count), 1..5).prop_map(|mut containers| {
        containers.retain(|(_, devices, cores)| devices + cores > 0);
        // App containers come last.
        containers.sort_by_key(|(role, ..)| *role == Role::App);
        containers
    })
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn whoever_follows_it_gets_the_whole_pod_admitted(
        name in prop::sample::select(vec![("inf1.6xlarge", 1), ("inf2.48xlarge", 1), ("trn1.32xlarge", 1), ("trn2.48xlarge", 2)]),
        held in prop::collection::vec(0u8..128, 0..24),
        containers in pods(),
        random in any::<u64>(),
    ) {
        let TestNode { mut occupancy, .. } = TestNode::new(name.0, name.1, false);
        occupancy.hold(held.into_iter().collect());
        let request = pod(&containers);
        if fits(&request, &occupancy).is_ok() {
            let given = admitted(&request, &occupancy, random, |turn| best_set_of_pod(&occupancy, turn));
            prop_assert!(given.is_ok(), "no set for {}", given.unwrap_err());
        }
    }
}
