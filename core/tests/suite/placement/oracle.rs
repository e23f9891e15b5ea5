//! The choice against brute force: every way to give every container an allowed free set, by §4's keys.

use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{fits, place};
use neuron_core::request::PodRequest;
use neuron_core::topology::{Policy, Topology};
use proptest::prelude::*;

use super::support::{Role, node_at, pod};

/// Devices and cores of each container.
type Way = Vec<(DeviceSet, CoreSet)>;
type Keys = (usize, usize, usize, usize, Vec<usize>, Vec<Vec<u8>>);

fn keys(node: &Occupancy, way: &Way) -> Keys {
    let shape: &Topology = node.topology();
    let width = shape.cores_per_device();
    let cores: Vec<u8> = way.iter().flat_map(|(_, cores)| cores.iter().collect::<Vec<_>>()).collect();
    let of = |device: u8| (device * width..(device + 1) * width).collect::<Vec<u8>>();
    let open = |core: &u8| node.free_cores().contains(*core);
    let whole = |device: &u8| of(*device).iter().all(open);
    let mut entered: Vec<u8> = cores.iter().map(|core| core / width).collect();
    entered.sort_unstable();
    entered.dedup();
    let mut touched = entered.clone();
    touched.extend(way.iter().flat_map(|(devices, _)| devices.iter().collect::<Vec<_>>()));
    let left = |device: &u8| of(*device).iter().filter(|core| open(core) && !cores.contains(core)).count();
    let mid = |(_, cores): &&(DeviceSet, CoreSet)| cores.first().is_some_and(|first| first % width != 0);
    let hit = |count: &u8| {
        let sets = shape.device_sets(u32::from(*count)).iter();
        let free = sets.filter(|set| set.iter().all(|device| whole(&device)));
        free.filter(|set| touched.iter().any(|device| set.contains(*device))).count()
    };
    (
        entered.iter().filter(|device| whole(device)).count(),
        touched.len(),
        entered.iter().filter(|device| !whole(device)).map(left).sum(),
        way.iter().filter(mid).count(),
        shape.device_counts().iter().rev().filter(|count| **count > 1).map(hit).collect(),
        way.iter().flat_map(|(d, c)| [d.iter().collect(), c.iter().collect()]).collect(),
    )
}

fn all_ways(node: &Occupancy, request: &PodRequest) -> Vec<Way> {
    let shape = node.topology();
    let mut ways: Vec<(Way, CoreSet)> = vec![(Vec::new(), node.free_cores())];
    for asks in &request.containers {
        let device_sets = shape.device_sets(asks.devices).to_vec();
        let core_sets = shape.core_sets(asks.cores).to_vec();
        let device_sets = if asks.devices == 0 { vec![DeviceSet::EMPTY] } else { device_sets };
        let core_sets = if asks.cores == 0 { vec![CoreSet::EMPTY] } else { core_sets };
        let mut longer = Vec::new();
        for (way, open) in &ways {
            for devices in &device_sets {
                let hardware = shape.cores_of(*devices);
                for cores in core_sets.iter().filter(|cores| !cores.intersects(hardware)) {
                    let both = hardware.union(*cores);
                    if both.is_subset(*open) {
                        let mut way = way.clone();
                        way.push((*devices, *cores));
                        longer.push((way, open.difference(both)));
                    }
                }
            }
        }
        ways = longer;
    }
    ways.into_iter().map(|(way, _)| way).collect()
}

fn nodes() -> impl Strategy<Value = Occupancy> {
    let shapes = prop::sample::select(vec![
        ("inf1.6xlarge", 1),
        ("inf2.24xlarge", 1),
        ("inf2.48xlarge", 1),
        ("trn1.32xlarge", 1),
        ("trn2.3xlarge", 1),
        ("trn3e.24xlarge", 2),
    ]);
    let policies = prop::sample::select(vec![Policy::Documented, Policy::Linked]);
    (shapes, policies, any::<[u64; 3]>(), 0u8..3, any::<u16>(), any::<bool>()).prop_map(
        |((name, lnc), policy, random, density, unhealthy, sick)| {
            assert!(Catalog::embedded().find(name).is_some());
            let mut node = node_at(name, lnc, policy, "", "");
            let held = match density {
                0 => random[0] & random[1] & random[2],
                1 => random[0] & random[1],
                _ => random[0],
            };
            node.hold(CoreSet::from_bits(u128::from(held)));
            if sick {
                node.set_unhealthy(DeviceSet::single((unhealthy % 16) as u8));
            }
            node
        },
    )
}

/// Every type of the catalog at every LNC it can have.
fn every_shape() -> Vec<(&'static str, u8)> {
    let types = Catalog::embedded().types().iter();
    let sizes = |model: &'static InstanceType| {
        model.generation.logical_core_sizes().iter().map(|lnc| (model.name.as_str(), *lnc))
    };
    types.flat_map(sizes).collect()
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn on_every_type_and_lnc_the_answer_is_the_best_there_is(
        (name, lnc) in prop::sample::select(every_shape()),
        random in any::<[u128; 2]>(),
        full in any::<bool>(),
        asks in prop::collection::vec(
            prop::sample::select(vec![
                (1, 0), (2, 0), (3, 0), (4, 0), (8, 0), (12, 0), (16, 0), (1, 1), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5),
                (0, 8), (0, 9), (0, 16), (0, 24), (0, 32), (0, 64), (0, 128),
            ]),
            1..=2,
        ),
    ) {
        let mut node = node_at(name, lnc, Policy::Documented, "", "");
        let held = if full { random[0] } else { random[0] & random[1] };
        // All of a large node is free only now and then by chance, and never with random bits held.
        node.hold(if random[1] % 4 == 0 { CoreSet::EMPTY } else { CoreSet::from_bits(held) });
        if asks.len() > 1 {
            // Brute force keeps every way in memory.
            node.hold(node.free_cores().iter().skip(32).collect());
        }
        let request = pod(&asks.iter().map(|&(d, c)| (Role::App, d, c)).collect::<Vec<_>>());
        let best = all_ways(&node, &request).iter().map(|way| keys(&node, way)).min();
        let placed = place(&request, &node);
        prop_assert_eq!(placed.clone().err(), fits(&request, &node).err());
        let way = placed.ok().map(|placed| placed.containers.iter().map(|c| (c.devices, c.cores)).collect());
        prop_assert_eq!(way.map(|way| keys(&node, &way)), best, "{:?} on {} at LNC {}", asks, name, lnc);
    }

    #[test]
    fn nothing_is_better_and_nothing_is_missed(
        node in nodes(),
        asks in prop::collection::vec((0u32..4, 0u32..6).prop_filter("asks", |(d, c)| d + c > 0), 1..=3),
    ) {
        let asks: Vec<_> = asks.into_iter().map(|(d, c)| if d > 0 && c > 2 { (0, c) } else { (d, c) }).collect();
        let request = pod(&asks.iter().map(|&(d, c)| (Role::App, d, c)).collect::<Vec<_>>());
        let ways = all_ways(&node, &request);
        let best = ways.iter().map(|way| keys(&node, way)).min();
        let placed = place(&request, &node);
        prop_assert_eq!(placed.clone().err(), fits(&request, &node).err());
        let way = placed.ok().map(|placed| placed.containers.iter().map(|c| (c.devices, c.cores)).collect());
        prop_assert_eq!(way.map(|way| keys(&node, &way)), best);
    }

    #[test]
    fn above_three_containers_nothing_is_missed(
        mut node in nodes(),
        asks in prop::collection::vec(prop::sample::select(vec![(1, 0), (0, 1), (0, 2), (0, 5), (2, 0)]), 4..=5),
    ) {
        let request = pod(&asks.iter().map(|&(d, c)| (Role::App, d, c)).collect::<Vec<_>>());
        // Brute force keeps every way in memory, so no more is left free than that allows.
        node.hold(node.free_cores().iter().skip(12).collect());
        let ways = all_ways(&node, &request);
        let placed = place(&request, &node);
        prop_assert_eq!(placed.is_ok(), !ways.is_empty());
        prop_assert_eq!(placed.err(), fits(&request, &node).err());
    }
}
