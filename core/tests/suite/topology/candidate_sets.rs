//! Production's candidate sets against the naive definition: every instance type at every LNC, both policies, every count.

use neuron_core::catalog::Catalog;
use neuron_core::names::Resource;
use neuron_core::report::{DeviceReport, Health, NodeReport};
use neuron_core::topology::{Policy, Topology};
use proptest::prelude::*;

use crate::naive::{self, Ids, Node, Rules};

/// Every count that a node has, and some more: what production allows is what the rules allow, in ascending order.
fn assert_same(topology: &Topology, node: &Node, what: &str) {
    let sets = naive::sets(node);
    for count in 0..=u32::from(node.devices) + 2 {
        let found: Vec<Ids> = topology.device_sets(count).iter().map(|set| set.iter().collect()).collect();
        assert_eq!(found, sets.devices(count), "{what}: {count} devices");
        assert_eq!(topology.supports(Resource::Device, count), !found.is_empty(), "{what}: {count} devices");
    }
    for count in 0..=u32::from(node.devices * node.cores_per_device) + 2 {
        let found: Vec<Ids> = topology.core_sets(count).iter().map(|set| set.iter().collect()).collect();
        assert_eq!(found, sets.cores(count), "{what}: {count} cores");
        assert_eq!(topology.supports(Resource::Core, count), !found.is_empty(), "{what}: {count} cores");
    }
    let counts =
        |sets: &std::collections::BTreeMap<u32, Vec<Ids>>| -> Vec<u32> { sets.keys().copied().collect() };
    let device_counts: Vec<u32> = topology.device_counts().iter().map(|&count| count.into()).collect();
    assert_eq!(device_counts, counts(&sets.devices), "{what}");
    let core_counts: Vec<u32> = topology.core_counts().iter().map(|&count| count.into()).collect();
    assert_eq!(core_counts, counts(&sets.cores), "{what}");
}

#[test]
fn candidate_sets_are_those_of_the_documented_rules() {
    for (name, lnc) in naive::every_type() {
        for policy in [Policy::Documented, Policy::Linked] {
            let topology = Topology::of(Catalog::embedded().find(&name).unwrap(), lnc, policy).unwrap();
            let node = naive::node(&name, lnc, policy == Policy::Linked);
            assert_same(&topology, &node, &format!("{name} at LNC {lnc} under {policy}"));
        }
    }
}

/// A set that is a candidate under one name is recognised, and no other is.
#[test]
fn a_set_is_recognised_by_the_same_rules() {
    for (name, lnc) in naive::every_type() {
        let topology =
            Topology::of(Catalog::embedded().find(&name).unwrap(), lnc, Policy::Documented).unwrap();
        let node = naive::node(&name, lnc, false);
        let sets = naive::sets(&node);
        let cores = node.devices * node.cores_per_device;
        for first in 0..cores {
            for last in first..cores {
                let ids: Ids = (first..=last).collect();
                let is_core_set = sets.cores(ids.len() as u32).contains(&ids);
                let run = ids.iter().copied().collect();
                assert_eq!(
                    topology.is_candidate_set(Resource::Core, run),
                    is_core_set,
                    "{name} {lnc} {ids:?}"
                );
                let devices: Ids = (first / node.cores_per_device..=last / node.cores_per_device).collect();
                let is_whole = ids.len() == devices.len() * usize::from(node.cores_per_device);
                let is_device_set = is_whole && sets.devices(devices.len() as u32).contains(&devices);
                assert_eq!(
                    topology.is_candidate_set(Resource::Device, run),
                    is_device_set,
                    "{name} {lnc} {ids:?}"
                );
            }
        }
    }
}

/// A report of a type that is not in the catalog, with these links: each as the device that reports it and the other one.
fn report(devices: u8, cores_per_device: u8, links: &[(u8, u8)]) -> NodeReport {
    let device = |id| DeviceReport {
        id,
        links: links.iter().filter(|(from, _)| *from == id).map(|(_, to)| *to).collect(),
        health: Health::Healthy,
        reason: None,
    };
    NodeReport {
        v: 1,
        time: None,
        rules: None,
        instance_type: "new.large".to_owned(),
        lnc: 1,
        cores_per_device: Some(cores_per_device),
        devices: (0..devices).map(device).collect(),
        holders: Vec::new(),
    }
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn a_reported_type_gives_one_all_or_linked_neighbours(
        devices in 1u8..=10,
        cores_per_device in 1u8..=8,
        links in prop::collection::vec((0u8..10, 0u8..12), 0..24),
    ) {
        let topology = Topology::of_report(&report(devices, cores_per_device, &links)).unwrap();
        let is_there = |(from, to): &&(u8, u8)| *from < devices && *to < devices && from != to;
        let is_linked = |one: u8, other: u8| {
            // A link that one end alone reports is a link.
            links.iter().filter(is_there).any(|link| [(one, other), (other, one)].contains(link))
        };
        let links_of = |one: u8| (0..devices).filter(|other| is_linked(one, *other)).collect();
        let node =
            Node { rules: Rules::Reported, devices, cores_per_device, links: (0..devices).map(links_of).collect() };
        assert_same(&topology, &node, &format!("{node:?}"));
    }
}
