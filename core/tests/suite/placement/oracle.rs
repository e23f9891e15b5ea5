//! The best placement against brute force: every way to give every container a free set, among the sets of the naive
//! definition, ordered by the keys of docs/architecture.md §4.

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::placement::{fits, place};
use neuron_core::request::{ContainerRequest, PodRequest};
use proptest::prelude::*;

use super::support::{Role, TestNode, pod};
use crate::naive;

/// Devices and cores of each container.
type Way = Vec<(DeviceSet, CoreSet)>;
type Keys = (usize, usize, usize, usize, Vec<usize>, Vec<Vec<u8>>);

/// Brute force holds every way in memory and orders it.
const MAX_WAYS: usize = 20_000;

fn keys(node: &TestNode, way: &Way) -> Keys {
    let cores_per_device = node.sets.cores_per_device;
    let cores: Vec<u8> = way.iter().flat_map(|(_, cores)| cores.iter().collect::<Vec<_>>()).collect();
    let of = |device: u8| (device * cores_per_device..(device + 1) * cores_per_device).collect::<Vec<u8>>();
    let is_free = |core: &u8| node.occupancy.free_cores().contains(*core);
    let is_whole = |device: &u8| of(*device).iter().all(is_free);
    let mut entered: Vec<u8> = cores.iter().map(|core| core / cores_per_device).collect();
    entered.sort_unstable();
    entered.dedup();
    let mut touched = entered.clone();
    touched.extend(way.iter().flat_map(|(devices, _)| devices.iter().collect::<Vec<_>>()));
    let left_over =
        |device: &u8| of(*device).iter().filter(|core| is_free(core) && !cores.contains(core)).count();
    let starts_mid_device =
        |(_, cores): &&(DeviceSet, CoreSet)| cores.first().is_some_and(|first| first % cores_per_device != 0);
    let hit = |sets: &Vec<naive::Ids>| {
        let free = sets.iter().filter(|set| set.iter().all(is_whole));
        free.filter(|set| touched.iter().any(|device| set.contains(device))).count()
    };
    (
        entered.iter().filter(|device| is_whole(device)).count(),
        touched.len(),
        entered.iter().filter(|device| !is_whole(device)).map(left_over).sum(),
        way.iter().filter(starts_mid_device).count(),
        node.sets.devices.iter().rev().filter(|(count, _)| **count > 1).map(|(_, sets)| hit(sets)).collect(),
        way.iter().flat_map(|(devices, cores)| [devices.iter().collect(), cores.iter().collect()]).collect(),
    )
}

/// The free sets that a container can get of each resource; the empty set alone where it requests none.
fn free_sets(node: &TestNode, requested: &ContainerRequest) -> (Vec<DeviceSet>, Vec<CoreSet>) {
    let devices = match requested.devices {
        0 => vec![DeviceSet::EMPTY],
        count => node.sets.devices(count).iter().map(|ids| ids.iter().copied().collect()).collect(),
    };
    let cores = match requested.cores {
        0 => vec![CoreSet::EMPTY],
        count => node.sets.cores(count).iter().map(|ids| ids.iter().copied().collect()).collect(),
    };
    let (free_devices, free_cores) = (node.occupancy.free_devices(), node.occupancy.free_cores());
    (
        devices.into_iter().filter(|set: &DeviceSet| set.is_subset(free_devices)).collect(),
        cores.into_iter().filter(|set: &CoreSet| set.is_subset(free_cores)).collect(),
    )
}

/// Holds cores from the top until brute force can look at every way.
fn bound(node: &mut TestNode, request: &PodRequest) {
    let ways = |node: &TestNode| {
        let ways = request.containers.iter().map(|requested| {
            let (devices, cores) = free_sets(node, requested);
            devices.len() * cores.len()
        });
        ways.product::<usize>()
    };
    while ways(node) > MAX_WAYS {
        let last = node.occupancy.free_cores().iter().last().unwrap();
        node.occupancy.hold(CoreSet::single(last));
    }
}

fn all_ways(node: &TestNode, request: &PodRequest) -> Vec<Way> {
    let topology = node.occupancy.topology();
    let mut ways: Vec<(Way, CoreSet)> = vec![(Vec::new(), node.occupancy.free_cores())];
    for requested in &request.containers {
        let (device_sets, core_sets) = free_sets(node, requested);
        let mut longer = Vec::new();
        for (way, free) in &ways {
            for devices in &device_sets {
                let hardware = topology.cores_of(*devices);
                for cores in core_sets.iter().filter(|cores| !cores.intersects(hardware)) {
                    let both = hardware.union(*cores);
                    if both.is_subset(*free) {
                        let mut way = way.clone();
                        way.push((*devices, *cores));
                        longer.push((way, free.difference(both)));
                    }
                }
            }
        }
        ways = longer;
    }
    ways.into_iter().map(|(way, _)| way).collect()
}

/// What `place` and `fits` say, beside the best of all ways: the keys of the one must be the keys of the other.
fn assert_best(node: &TestNode, requests: &[(u32, u32)]) -> Result<(), TestCaseError> {
    let request = app_pod(requests);
    let best = all_ways(node, &request).iter().map(|way| keys(node, way)).min();
    let placed = place(&request, &node.occupancy);
    prop_assert_eq!(placed.clone().err(), fits(&request, &node.occupancy).err());
    if let Ok(placed) = &placed {
        let way = placed.containers.iter().map(|given| (given.devices, given.cores)).collect();
        let (entered, touched, left_over, mid_device, hits, _) = keys(node, &way);
        let found = &placed.keys;
        let first_four = (
            found.whole_devices_entered,
            found.devices_touched,
            found.cores_left_over,
            found.mid_device_starts,
        );
        let expected = (entered as u32, touched as u32, left_over as u32, mid_device as u32);
        prop_assert_eq!(first_four, expected, "the placement says its own keys");
        let hits: Vec<u32> = hits.into_iter().map(|hits| hits as u32).collect();
        prop_assert_eq!(&found.free_sets_hit, &hits, "the placement says its own keys");
    }
    let way = placed.ok().map(|placed| placed.containers.iter().map(|c| (c.devices, c.cores)).collect());
    prop_assert_eq!(way.map(|way| keys(node, &way)), best, "{:?} on {:?}", requests, node);
    Ok(())
}

fn app_pod(requests: &[(u32, u32)]) -> PodRequest {
    pod(&requests.iter().map(|&(devices, cores)| (Role::App, devices, cores)).collect::<Vec<_>>())
}

/// Nodes of one type of each kind, under either policy, with some cores held and now and then a device unhealthy.
fn nodes() -> impl Strategy<Value = TestNode> {
    let types = prop::sample::select(vec![
        ("inf1.6xlarge", 1),
        ("inf2.24xlarge", 1),
        ("inf2.48xlarge", 1),
        ("trn1.32xlarge", 1),
        ("trn2.3xlarge", 1),
        ("trn3e.24xlarge", 2),
    ]);
    (types, any::<bool>(), any::<[u64; 3]>(), 0u8..3, any::<u16>(), any::<bool>()).prop_map(
        |((name, lnc), linked, random, density, unhealthy, is_unhealthy)| {
            let mut node = TestNode::new(name, lnc, linked);
            let held = match density {
                0 => random[0] & random[1] & random[2],
                1 => random[0] & random[1],
                _ => random[0],
            };
            node.occupancy.hold(CoreSet::from_bits(u128::from(held)));
            if is_unhealthy {
                node.occupancy.set_unhealthy(DeviceSet::single((unhealthy % 16) as u8));
            }
            node
        },
    )
}

/// Little is free and in pieces, so that the keys pull in different directions: a bound that is too high shows here.
#[test]
fn on_crowded_nodes_the_answer_is_the_best_for_every_three_containers() {
    let requests = [(0, 1), (0, 2), (0, 3), (0, 5), (1, 0)];
    for (name, cores) in [("inf1.6xlarge", 16), ("inf2.24xlarge", 12)] {
        let masks = (0u32..1 << cores).step_by(if cores == 16 { 2609 } else { 163 });
        for free in masks.filter(|mask| (4..=9).contains(&mask.count_ones())) {
            let mut node = TestNode::new(name, 1, false);
            node.occupancy.hold(CoreSet::from_bits(u128::from(!free)));
            for first in requests {
                for second in requests {
                    for third in requests {
                        assert_best(&node, &[first, second, third]).unwrap();
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn on_every_type_and_lnc_the_answer_is_the_best_there_is(
        (name, lnc) in prop::sample::select(naive::every_type()),
        random in any::<[u128; 2]>(),
        full in any::<bool>(),
        requests in prop::collection::vec(
            prop::sample::select(vec![
                (1, 0), (2, 0), (3, 0), (4, 0), (8, 0), (12, 0), (16, 0), (1, 1), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5),
                (0, 8), (0, 9), (0, 16), (0, 24), (0, 32), (0, 64), (0, 128),
            ]),
            1..=2,
        ),
    ) {
        let mut node = TestNode::new(&name, lnc, false);
        let held = if full { random[0] } else { random[0] & random[1] };
        // All of a large node is free only now and then by chance, and never with random bits held.
        node.occupancy.hold(if random[1] % 4 == 0 { CoreSet::EMPTY } else { CoreSet::from_bits(held) });
        bound(&mut node, &app_pod(&requests));
        assert_best(&node, &requests)?;
    }

    #[test]
    fn nothing_is_better_and_nothing_is_missed(
        mut node in nodes(),
        requests in prop::collection::vec((0u32..4, 0u32..6).prop_filter("a request", |(d, c)| d + c > 0), 1..=3),
    ) {
        let requests: Vec<_> =
            requests.into_iter().map(|(d, c)| if d > 0 && c > 2 { (0, c) } else { (d, c) }).collect();
        bound(&mut node, &app_pod(&requests));
        assert_best(&node, &requests)?;
    }

    #[test]
    fn above_three_containers_nothing_is_missed(
        mut node in nodes(),
        requests in prop::collection::vec(
            prop::sample::select(vec![(1, 0), (0, 1), (0, 2), (0, 5), (2, 0)]),
            4..=5,
        ),
    ) {
        let request = app_pod(&requests);
        bound(&mut node, &request);
        let placed = place(&request, &node.occupancy);
        prop_assert_eq!(placed.is_ok(), !all_ways(&node, &request).is_empty());
        prop_assert_eq!(placed.err(), fits(&request, &node.occupancy).err());
    }
}
