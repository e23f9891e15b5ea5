//! Topologies: candidate sets by example, nodes of known types and of types that only a report describes.

mod candidate_sets;
mod golden_table;

use neuron_core::catalog::Catalog;
use neuron_core::ids::DeviceSet;
use neuron_core::names::Resource;
use neuron_core::report::{DeviceReport, Health, NodeReport};
use neuron_core::topology::{Policy, Topology};
use rstest::rstest;

fn topology(name: &str, policy: Policy) -> Topology {
    let row = Catalog::embedded().find(name).unwrap();
    Topology::of(row, row.default_lnc, policy).unwrap()
}

fn text<T: ToString>(sets: &[T]) -> String {
    sets.iter().map(|set| format!("{{{}}}", set.to_string())).collect::<Vec<_>>().join(" ")
}

#[rstest]
#[case("inf2.24xlarge", Policy::Documented, 2, "{0,1} {1,2} {2,3} {3,4} {4,5}")]
#[case("inf2.24xlarge", Policy::Linked, 5, "{0,1,2,3,4} {1,2,3,4,5}")]
#[case("inf2.48xlarge", Policy::Documented, 11, "{0,1,2,3,4,5,6,7,8,9,10} {1,2,3,4,5,6,7,8,9,10,11}")]
#[case("trn1.32xlarge", Policy::Documented, 4, "{0,1,2,3} {4,5,6,7} {8,9,10,11} {12,13,14,15}")]
#[case("trn1.32xlarge", Policy::Documented, 8, "{0,1,2,3,4,5,6,7} {8,9,10,11,12,13,14,15}")]
#[case("trn1.32xlarge", Policy::Documented, 2, "")]
#[case("trn1.32xlarge", Policy::Documented, 7, "")]
#[case("trn1.32xlarge", Policy::Linked, 2, "")]
#[case("trn1.32xlarge", Policy::Linked, 7, "")]
#[case("trn2.48xlarge", Policy::Documented, 2, "")]
#[case("trn3e.24xlarge", Policy::Documented, 2, "")]
#[case("trn3e.24xlarge", Policy::Documented, 4, "{0,1,2,3}")]
#[case("trn2.3xlarge", Policy::Documented, 1, "{0}")]
#[case("inf2.xlarge", Policy::Linked, 1, "{0}")]
#[case("inf2.xlarge", Policy::Documented, 0, "")]
#[case("inf2.xlarge", Policy::Documented, 4_000_000_000, "")]
fn device_sets(#[case] name: &str, #[case] policy: Policy, #[case] count: u32, #[case] expected: &str) {
    assert_eq!(text(topology(name, policy).device_sets(count)), expected);
}

#[rstest]
#[case("inf1.xlarge", 3, "{0,1,2} {1,2,3}")]
#[case("inf1.6xlarge", 15, "{0,1,2,3,4,5,6,7,8,9,10,11,12,13,14} {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15}")]
#[case("inf1.6xlarge", 4, "{0,1,2,3} {4,5,6,7} {8,9,10,11} {12,13,14,15}")]
#[case("trn1.32xlarge", 3, "")]
#[case(
    "trn1.32xlarge",
    8,
    "{0,1,2,3,4,5,6,7} {8,9,10,11,12,13,14,15} {16,17,18,19,20,21,22,23} {24,25,26,27,28,29,30,31}"
)]
#[case("trn1.32xlarge", 33, "")]
fn core_sets(#[case] name: &str, #[case] count: u32, #[case] expected: &str) {
    assert_eq!(text(topology(name, Policy::Documented).core_sets(count)), expected);
}

#[rstest]
#[case(Resource::Device, &[1, 4, 8, 16])]
#[case(Resource::Core, &[1, 2, 8, 16, 32])]
fn a_count_is_supported_if_it_has_a_set(#[case] resource: Resource, #[case] expected: &[u32]) {
    let torus = topology("trn1.32xlarge", Policy::Documented);
    let supported: Vec<u32> = (0..=40).filter(|&count| torus.supports(resource, count)).collect();
    assert_eq!(supported, expected);
    assert!(!torus.supports(resource, u32::MAX));
}

#[rstest]
#[case::a_linked_pair(Resource::Device, "0,1,2,3", true)]
#[case::a_pair_that_is_not_linked(Resource::Device, "0,1,4,5", false)]
#[case::half_a_device(Resource::Device, "0,1,2", false)]
#[case::a_core_that_no_device_has(Resource::Device, "10,11,12", false)]
#[case::nothing(Resource::Device, "", false)]
#[case::neighbours(Resource::Core, "0,1,2", true)]
#[case::cores_apart(Resource::Core, "0,2", false)]
#[case::a_pair_over_two_devices(Resource::Core, "1,2", false)]
#[case::a_core_that_is_not_there(Resource::Core, "12", false)]
#[case::nothing(Resource::Core, "", false)]
fn a_set_is_a_candidate_under_one_name(
    #[case] resource: Resource,
    #[case] cores: &str,
    #[case] expected: bool,
) {
    let line = topology("inf2.24xlarge", Policy::Documented);
    assert_eq!(line.is_candidate_set(resource, cores.parse().unwrap()), expected);
}

#[test]
fn under_policy_linked_rings_wrap_and_trainium2_takes_two() {
    let ring = topology("inf2.48xlarge", Policy::Linked);
    assert!(text(ring.device_sets(2)).starts_with("{0,1} {0,11} {1,2}"));
    assert_eq!(ring.device_sets(3).len(), 12);
    // Cores are consecutive ids, so a wrapped pair gives none.
    assert_eq!(ring.core_sets(4).iter().filter(|set| set.contains(0) && set.contains(23)).count(), 0);

    let torus = topology("trn2.48xlarge", Policy::Linked);
    assert_eq!(torus.device_counts(), [1, 2, 4, 8, 16]);
    assert_eq!(torus.device_sets(2).len(), 32);
    assert!(torus.device_sets(4).iter().all(|set| torus.is_connected(*set)));
    assert_eq!(topology("trn1.32xlarge", Policy::Linked).device_counts(), [1, 4, 8, 16]);
}

#[test]
fn one_and_all_are_always_valid_and_sets_ascend() {
    for row in Catalog::embedded().types() {
        for policy in [Policy::Documented, Policy::Linked] {
            for &lnc in row.generation.logical_core_sizes() {
                let topology = Topology::of(row, lnc, policy).unwrap();
                assert_eq!(topology.cores(), row.devices * row.cores_per_device / lnc, "{}", row.name);
                assert_eq!(topology.device_sets(1).len(), usize::from(topology.devices()), "{}", row.name);
                assert_eq!(topology.device_sets(topology.devices().into()), [topology.all_devices()]);
                assert_eq!(topology.core_sets(1).len(), usize::from(topology.cores()), "{}", row.name);
                assert_eq!(topology.core_sets(topology.cores().into()), [topology.all_cores()]);
                for &count in topology.device_counts() {
                    let ids: Vec<Vec<u8>> =
                        topology.device_sets(count.into()).iter().map(|set| set.iter().collect()).collect();
                    assert!(ids.iter().all(|set| set.len() == usize::from(count)), "{} {count}", row.name);
                    assert!(ids.is_sorted_by(|one, next| one < next), "{} {count}", row.name);
                }
                for count in topology.core_counts() {
                    let ids: Vec<Vec<u8>> =
                        topology.core_sets(count.into()).iter().map(|set| set.iter().collect()).collect();
                    assert!(ids.iter().all(|set| set.len() == usize::from(count)), "{} {count}", row.name);
                    assert!(ids.is_sorted_by(|one, next| one < next), "{} {count}", row.name);
                }
            }
        }
    }
}

#[test]
fn logical_cores_follow_lnc() {
    let row = Catalog::embedded().find("trn2.48xlarge").unwrap();
    let at = |lnc| Topology::of(row, lnc, Policy::Documented).unwrap();
    assert_eq!((at(1).cores_per_device(), at(1).cores()), (8, 128));
    assert_eq!((at(2).cores_per_device(), at(2).cores()), (4, 64));
    assert_eq!(at(2).cores_of([0, 15].into_iter().collect()).to_string(), "0,1,2,3,60,61,62,63");
    assert_eq!(at(2).devices_of("3,4,63".parse().unwrap()).to_string(), "0,1,15");
    let wrong = Topology::of(row, 3, Policy::Documented).unwrap_err();
    assert_eq!(wrong.to_string(), "instance type trn2.48xlarge cannot run with LNC 3; use 1 or 2");
    let trn1 = Topology::of(Catalog::embedded().find("trn1.32xlarge").unwrap(), 2, Policy::Documented);
    assert_eq!(trn1.unwrap_err().to_string(), "instance type trn1.32xlarge cannot run with LNC 2; use 1");
    assert!(Topology::of(row, 0, Policy::Documented).is_err());
}

fn report(links: &[&str]) -> NodeReport {
    let device = |(id, links): (usize, &&str)| DeviceReport {
        id: id as u8,
        links: links.parse().unwrap(),
        health: Health::Healthy,
        reason: None,
    };
    NodeReport {
        v: 1,
        time: None,
        rules: None,
        instance_type: "inf2e.32xlarge".to_owned(),
        lnc: 1,
        cores_per_device: Some(2),
        devices: links.iter().enumerate().map(device).collect(),
        holders: Vec::new(),
    }
}

#[test]
fn a_type_known_only_by_report_gives_one_all_or_linked_neighbours() {
    // A line of three and one device apart; device 1 is lost and reports no links of its own.
    let topology = Topology::of_report(&report(&["1", "", "1", "9"])).unwrap();
    assert_eq!(topology.instance_type(), "inf2e.32xlarge");
    assert_eq!(text(topology.device_sets(2)), "{0,1} {1,2}");
    assert_eq!(text(topology.device_sets(3)), "{0,1,2}");
    assert_eq!(topology.device_sets(4), [topology.all_devices()]);
    assert_eq!(text(topology.core_sets(4)), "{0,1,2,3} {2,3,4,5}");
    assert_eq!(text(topology.core_sets(3)), "");
    assert_eq!(topology.core_counts(), [1, 2, 4, 6, 8]);
    assert!(!topology.is_connected(DeviceSet::EMPTY));
}

#[test]
fn a_report_that_no_node_can_have_is_refused() {
    let described = |report: &NodeReport| Topology::of_report(report).unwrap_err().to_string();
    let start = "the report of a node of instance type inf2e.32xlarge";
    assert_eq!(
        described(&report(&[])),
        format!("{start} lists devices {{}}; their ids must count from 0 without a gap")
    );
    let mut gap = report(&["", ""]);
    gap.devices[1].id = 2;
    assert_eq!(
        described(&gap),
        format!("{start} lists devices {{0,2}}; their ids must count from 0 without a gap")
    );
    let no_cores = NodeReport { cores_per_device: None, ..report(&[""]) };
    assert_eq!(
        described(&no_cores),
        format!("{start} does not say coresPerDevice, which a type without a known shape needs")
    );
    let zero_cores = NodeReport { cores_per_device: Some(0), ..report(&[""]) };
    assert_eq!(described(&zero_cores), described(&no_cores));
    let most = NodeReport { cores_per_device: Some(64), ..report(&["", ""]) };
    assert_eq!(Topology::of_report(&most).unwrap().cores(), 128);
    let many = NodeReport { cores_per_device: Some(100), ..report(&["", ""]) };
    assert_eq!(described(&many), format!("{start} has 200 logical cores; at most 128 are supported"));
    let lnc = NodeReport { lnc: 4, ..report(&[""]) };
    assert_eq!(described(&lnc), "instance type inf2e.32xlarge cannot run with LNC 4; use 1 or 2");
}

#[test]
fn policies_are_two_words() {
    assert_eq!("linked".parse(), Ok(Policy::Linked));
    assert_eq!("documented".parse(), Ok(Policy::Documented));
    assert_eq!(Policy::default().to_string(), "documented");
    let wrong = "Linked".parse::<Policy>().unwrap_err();
    assert_eq!(wrong.to_string(), "\"Linked\" is not a placement policy; use documented or linked");
}

#[rstest]
#[case(Some("trn2.48xlarge"), None, Ok(("trn2.48xlarge", 2)))]
#[case(Some("ml.trn2p.48xlarge"), None, Ok(("ml.trn2p.48xlarge", 2)))]
#[case(Some("trn2p.48xlarge"), Some(("trn2.48xlarge", 1)), Ok(("trn2p.48xlarge", 1)))]
#[case(Some("ml.trn1.32xlarge"), Some(("trn1.32xlarge", 1)), Ok(("ml.trn1.32xlarge", 1)))]
#[case(None, Some(("trn2.48xlarge", 1)), Ok(("trn2.48xlarge", 1)))]
#[case(Some("inf2e.32xlarge"), Some(("inf2e.32xlarge", 1)), Ok(("inf2e.32xlarge", 1)))]
#[case(Some("ml.new.large"), Some(("new.large", 1)), Ok(("new.large", 1)))]
#[case(
    None,
    None,
    Err(
        "Node has no label node.kubernetes.io/instance-type and no report of a Neuron device plugin; set the label or run the plugin on it"
    )
)]
#[case(
    Some("inf2e.32xlarge"),
    None,
    Err(
        "Instance type inf2e.32xlarge is not in the catalog and the node has no report of a Neuron device plugin; run the plugin on it or add the type to the catalog"
    )
)]
#[case(Some("trn1.32xlarge"), Some(("trn2.48xlarge", 1)), Err("Node label node.kubernetes.io/instance-type says trn1.32xlarge, the node's Neuron device plugin reports trn2.48xlarge; correct the label"))]
#[case(Some("m5.large"), Some(("inf2.24xlarge", 1)), Err("Node label node.kubernetes.io/instance-type says m5.large, the node's Neuron device plugin reports inf2.24xlarge; correct the label"))]
#[case(Some("trn1.32xlarge"), Some(("trn1.32xlarge", 2)), Err("instance type trn1.32xlarge cannot run with LNC 2; use 1"))]
fn a_nodes_topology_comes_from_its_label_and_its_report(
    #[case] label: Option<&str>,
    #[case] reported: Option<(&str, u8)>,
    #[case] expected: Result<(&str, u8), &str>,
) {
    let report = reported.map(|(name, lnc)| NodeReport {
        instance_type: name.to_owned(),
        lnc,
        cores_per_device: Some(2),
        ..report(&["1", "0"])
    });
    let found = Topology::of_node(label, report.as_ref(), Catalog::embedded(), Policy::Documented);
    let found = found.map(|topology| (topology.instance_type().to_owned(), topology.lnc()));
    assert_eq!(
        found.as_ref().map(|(name, lnc)| (name.as_str(), *lnc)).map_err(ToString::to_string),
        expected.map_err(str::to_owned)
    );
}
