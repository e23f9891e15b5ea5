//! Properties of [`settle`] over arbitrary pods, records and reports: nothing is silently free, nothing is
//! given twice, and the answer does not hang on the order of the pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::holders::{NodeFacts, Settled, Source, settle};
use neuron_core::ids::CoreSet;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::report::{DeviceReport, Health, HolderReport, NodeReport, Reported};
use neuron_core::topology::{Policy, Topology};
use proptest::prelude::*;
use serde_json::json;

#[derive(Clone, Debug)]
struct Case {
    asked: u32,
    first: u8,
    recorded: u8,
    kind: &'static str,
    time: Option<u8>,
    terminal: bool,
    reported: Option<(u8, u8)>,
}

fn cases() -> impl Strategy<Value = Vec<Case>> {
    let small = 0u8..4;
    let case = (
        (0u32..4, 0u8..14, small.clone()),
        prop::sample::select(vec!["ours", "ours", "ours", "aws", "none", "garbage"]),
        (prop::option::of(0u8..3), prop::bool::weighted(0.1)),
        prop::option::weighted(0.3, (0u8..14, small)),
    );
    let case = case.prop_map(|((asked, first, recorded), kind, (time, terminal), reported)| {
        // Most records are of the right size, else few would count.
        let recorded = if first % 4 == 0 { recorded } else { asked as u8 };
        Case { asked, first, recorded, kind, time, terminal, reported }
    });
    prop::collection::vec(case, 0..8)
}

fn pod(place: usize, case: &Case) -> BoundPod {
    let limits = json!({ "aws.amazon.com/neuroncore": case.asked });
    let spec = json!({ "containers": [{ "name": "main", "resources": { "limits": limits } }] });
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let ids = CoreSet::run(case.first, case.recorded);
    let annotations = match case.kind {
        "ours" => {
            let containers = json!({ "main": { "cores": ids } });
            let record = json!({ "v": 1, "node": "n1", "lnc": 1, "containers": containers });
            BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())])
        }
        "aws" => BTreeMap::from([("AWS_NEURON_IDS".to_owned(), ids.to_string())]),
        "garbage" => BTreeMap::from([("neuron-scheduler/allocation".to_owned(), "garbage".to_owned())]),
        _ => BTreeMap::new(),
    };
    let uid = format!("u{place}");
    let scheduled_at = case.time.map(|second| format!("2026-01-01T00:00:0{second}Z").parse().unwrap());
    BoundPod {
        scheduled_at,
        terminal: case.terminal,
        ..BoundPod::new("ns", &uid, &uid, annotations, &spec, None)
    }
}

fn report(cases: &[Case]) -> NodeReport {
    let device = |id| DeviceReport { id, links: Default::default(), health: Health::Healthy, reason: None };
    let holders = cases.iter().enumerate().filter_map(|(place, case)| {
        let (first, count) = case.reported?;
        let uid = format!("u{place}");
        Some(HolderReport { pod: format!("ns/{uid}"), uid, cores: CoreSet::run(first, count) })
    });
    NodeReport {
        v: 1,
        time: None,
        rules: None,
        instance_type: "inf2.24xlarge".to_owned(),
        lnc: 1,
        cores_per_device: None,
        devices: (0..6).map(device).collect(),
        holders: holders.collect(),
    }
}

fn settled(pods: &[BoundPod], report: Option<&NodeReport>) -> Settled {
    let row = Catalog::embedded().find("inf2.24xlarge").unwrap();
    let topology = Arc::new(Topology::of(row, 1, Policy::Documented).unwrap());
    let reported = report.map(Reported::from);
    settle(&NodeFacts { name: "n1", topology, report: reported.as_ref(), pods })
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn nothing_is_silently_free_and_nothing_is_given_twice(cases in cases(), has_report in any::<bool>()) {
        let pods: Vec<BoundPod> = cases.iter().enumerate().map(|(place, case)| pod(place, case)).collect();
        let report = report(&cases);
        let report = has_report.then_some(&report);
        let settled = settled(&pods, report);

        let holding: BTreeSet<&str> = settled.holdings.iter().map(|holding| holding.uid()).collect();
        let unknown: BTreeSet<&str> = settled.unknown.iter().map(|holder| &*holder.uid).collect();
        prop_assert!(holding.is_disjoint(&unknown));
        for pod in &pods {
            let stands = holding.contains(&*pod.uid) || unknown.contains(&*pod.uid);
            let asks = !pod.request.as_ref().unwrap().is_empty();
            prop_assert!(!pod.terminal || !stands, "{} has ended", pod.uid);
            prop_assert!(pod.terminal || !asks || stands, "{} asks and holds nothing", pod.uid);
        }
        let all = settled.holdings.iter().fold(CoreSet::EMPTY, |all, holding| all.union(holding.cores));
        prop_assert_eq!(all, settled.occupancy.held());
        // What no report speaks for never overlaps anything; what kubelet gave is held as it is.
        for holding in settled.holdings.iter().filter(|holding| holding.source == Source::Record) {
            for other in settled.holdings.iter().filter(|other| other.uid() != holding.uid()) {
                prop_assert!(!holding.cores.intersects(other.cores));
            }
        }
        for holder in report.map(|report| report.holders.as_slice()).unwrap_or_default() {
            let given = holder.cores.intersection(settled.occupancy.topology().all_cores());
            let lives = pods.iter().any(|pod| *pod.uid == *holder.uid && !pod.terminal);
            prop_assert!(!lives || given.is_subset(settled.occupancy.held()));
        }
    }

    #[test]
    fn the_order_of_the_pods_does_not_matter(
        (cases, order) in cases().prop_flat_map(|cases| {
            let order = Just((0..cases.len()).collect::<Vec<_>>()).prop_shuffle();
            (Just(cases), order)
        }),
    ) {
        let pods: Vec<BoundPod> = cases.iter().enumerate().map(|(place, case)| pod(place, case)).collect();
        let shuffled: Vec<BoundPod> = order.iter().map(|&place| pods[place].clone()).collect();
        let report = report(&cases);
        let (one, other) = (settled(&pods, Some(&report)), settled(&shuffled, Some(&report)));
        prop_assert_eq!(one.holdings, other.holdings);
        prop_assert_eq!(one.ignored, other.ignored);
        prop_assert_eq!(one.unknown, other.unknown);
    }
}
