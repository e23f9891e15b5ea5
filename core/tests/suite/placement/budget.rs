//! A pod's author chooses its containers: no question about a pod takes long, and what is given up says so.
//! Without the budget the first test takes hours.

use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Refusal, fits, place};
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
            "not decided: there are too many ways to place the pod's 19 Neuron containers; ask in fewer containers or for whole devices"
        );
    }
}

/// Any node under policy `documented`, held in part by whole devices and by single cores, with devices that are unhealthy.
fn node() -> impl Strategy<Value = Occupancy> {
    let types: Vec<String> = Catalog::embedded().types().iter().map(|model| model.name.clone()).collect();
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

proptest! {
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
