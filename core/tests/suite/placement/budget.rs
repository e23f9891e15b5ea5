//! A pod's author chooses its containers: no question about a pod takes long, and what is given up says so.
//! Without the budget the first two tests take hours.

use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{EqualNodes, Refusal, fits, place};
use neuron_core::request::PodRequest;
use neuron_core::topology::{Policy, Topology};
use proptest::prelude::*;

use super::support::{Role, cores, devices, node_at, pod};

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
            "not decided: where the 19 Neuron containers of the pod fit was searched for in 200000 moves and not found; ask in \
             fewer containers or for counts of whole devices"
        );
    }
}

#[test]
fn a_thousand_unlike_nodes_are_not_searched_one_after_the_other() {
    let request = hostile();
    let mut equal_nodes = EqualNodes::new(&request);
    let empty = node_at("trn2.48xlarge", 2, Policy::Documented, "", "");
    for held in 0..1000u32 {
        let mut node = empty.clone();
        let ids: Vec<String> =
            (0..10).filter(|bit| held >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
        node.hold(ids.join(",").parse().unwrap());
        assert!(equal_nodes.fits(&node).is_err());
    }
}

/// Any node, held in part by whole devices and by single cores.
fn node() -> impl Strategy<Value = Occupancy> {
    let types: Vec<String> = Catalog::embedded().types().iter().map(|model| model.name.clone()).collect();
    let parts = (prop::sample::select(types), 1u8..=2, any::<u128>(), any::<u128>(), any::<bool>());
    parts.prop_filter_map("no such LNC", |(name, lnc, some, others, is_sparse)| {
        let model = Catalog::embedded().find(&name)?;
        let topology = Topology::of(model, lnc, Policy::Documented).ok()?;
        let mut node = Occupancy::empty(Arc::new(topology));
        let held = if is_sparse { some & others } else { some };
        node.hold(CoreSet::from_bits(held).intersection(node.topology().all_cores()));
        Some(node)
    })
}

proptest! {
    /// Every shape of up to four containers that ask: a role, a resource or both, and a count each.
    #[test]
    fn pods_of_up_to_four_containers_are_always_decided(
        node in node(),
        requests in prop::collection::vec((0usize..3, 0usize..3, 1u32..33, 1u32..17), 1..=4),
    ) {
        let containers: Vec<_> = requests
            .into_iter()
            .map(|(role, resources, some_cores, some_devices)| {
                let (_, own_devices, own_cores) = match resources {
                    0 => devices(some_devices),
                    1 => cores(some_cores),
                    _ => (Role::App, some_devices, some_cores),
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
