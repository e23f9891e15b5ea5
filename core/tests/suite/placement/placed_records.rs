//! What placement gives, record writes and holders read are one thing: a pod placed by the extender is held
//! as it was placed, whatever its containers are, and the next pod never gets the same hardware.

use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::holders::{NodeFacts, settle};
use neuron_core::names::Resource;
use neuron_core::placement::{fits, place};
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::request::PodRequest;
use neuron_core::topology::{Policy, Topology};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Role, device count and core count of one container.
type Requested = (char, u32, u32);

fn spec(containers: &[Requested]) -> PodSpec {
    let (mut init, mut app): (Vec<Value>, Vec<Value>) = Default::default();
    for (place, (role, devices, cores)) in containers.iter().enumerate() {
        let limits = json!({ "aws.amazon.com/neuron": devices, "aws.amazon.com/neuroncore": cores });
        let mut container = json!({ "name": format!("c{place}"), "resources": { "limits": limits } });
        if *role == 's' {
            container["restartPolicy"] = json!("Always");
        }
        if *role == 'a' { app.push(container) } else { init.push(container) }
    }
    serde_json::from_value(json!({ "initContainers": init, "containers": app })).unwrap()
}

fn pods() -> impl Strategy<Value = Vec<Vec<Requested>>> {
    let count = prop_oneof![3 => Just(0u32), 3 => Just(1), 2 => Just(2), 1 => Just(4)];
    let requested = (prop::sample::select(vec!['i', 's', 'a', 'a']), count.clone(), count);
    prop::collection::vec(prop::collection::vec(requested, 1..4), 1..5)
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn placed_pods_are_held_as_placed(
        name in prop::sample::select(vec!["inf1.6xlarge", "inf2.48xlarge", "trn1.32xlarge", "trn2.48xlarge"]),
        pods in pods(),
    ) {
        let row = Catalog::embedded().find(name).unwrap();
        let topology = Arc::new(Topology::of(row, row.default_lnc, Policy::Documented).unwrap());
        let mut bound: Vec<BoundPod> = Vec::new();
        for (place_in_line, containers) in pods.iter().enumerate() {
            let before = settle(&NodeFacts { name: "n1", topology: topology.clone(), report: None, pods: &bound });
            let spec = spec(containers);
            let request = PodRequest::of(&spec).unwrap();
            if request.is_empty() {
                continue;
            }
            let placed = place(&request, &before.occupancy);
            prop_assert_eq!(placed.is_ok(), fits(&request, &before.occupancy).is_ok());
            let Ok(placed) = placed else { continue };
            let allocation = placed.allocation("n1", &topology);
            prop_assert!(!allocation.hardware(&topology).intersects(before.occupancy.held()));
            let uid = format!("u{place_in_line}");
            let annotations = allocation.annotations(false, "1");
            bound.push(BoundPod::new("ns", &uid, &uid, annotations.clone(), &spec, None));

            let after = settle(&NodeFacts { name: "n1", topology: topology.clone(), report: None, pods: &bound });
            prop_assert!(after.ignored.is_empty(), "{:?}", after.ignored);
            prop_assert!(after.unknown.is_empty());
            let holding = after.holdings.iter().find(|holding| holding.uid() == uid).unwrap();
            prop_assert_eq!(holding.allocation.as_deref(), Some(&allocation));
            prop_assert_eq!(holding.cores, placed.hardware(&topology));
            prop_assert_eq!(after.occupancy.held(), before.occupancy.held().union(holding.cores));

            // A tool that reads AWS' keys alone sees as many ids as the pod takes of the one resource that it requests;
            // a pod that requests both carries none of these keys.
            let [devices, cores] = Resource::ALL.map(|resource| request.total(resource));
            let expected = match (devices, cores) {
                (count, 0) => Some((count, "aws.amazon.com/neuron")),
                (0, count) => Some((count, "aws.amazon.com/neuroncore")),
                _ => None,
            };
            let ids = annotations.get("AWS_NEURON_IDS").map(|ids| ids.split(',').count() as u32);
            let found = ids.map(|ids| (ids, annotations["NEURON_RESOURCE_TYPE"].as_str()));
            prop_assert_eq!(found, expected);
        }
    }
}
