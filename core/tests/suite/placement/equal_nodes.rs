//! Equal nodes answer as each of them would.

use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{EqualNodes, fits};
use neuron_core::topology::Policy;
use proptest::prelude::*;

use super::support::{Role, cores, devices, node_at, pod};

/// Of an inf2.24xlarge.
const ALL_CORES: &str = "0,1,2,3,4,5,6,7,8,9,10,11";

/// Nodes that differ in one thing each, and two of every one. Those of one kind have one topology, as in an index.
fn nodes() -> Vec<Occupancy> {
    let mut nodes = Vec::new();
    for (instance_type, lnc, policy, held_and_unhealthy) in [
        ("trn2.48xlarge", 1, Policy::Documented, &[("", "")][..]),
        ("trn2.48xlarge", 2, Policy::Linked, &[("", "")]),
        (
            "trn2.48xlarge",
            2,
            Policy::Documented,
            &[("", ""), ("0", ""), ("", "0"), ("4,8,20,24,36,40,52,56", "")],
        ),
        ("inf2.24xlarge", 1, Policy::Documented, &[("2,6,10", ""), ("", "1"), (ALL_CORES, "")]),
    ] {
        let empty = node_at(instance_type, lnc, policy, "", "");
        for (held, unhealthy) in held_and_unhealthy {
            let mut node = empty.clone();
            node.hold(held.parse().unwrap());
            node.set_unhealthy(unhealthy.parse().unwrap());
            nodes.push(node);
        }
    }
    nodes.iter().chain(&nodes).cloned().collect()
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn equal_nodes_answer_as_each_of_them(
        requests in prop::collection::vec((0usize..3, any::<bool>(), 1u32..18), 1..4),
    ) {
        let containers: Vec<_> = requests
            .into_iter()
            .map(|(role, by_device, count)| {
                let (_, devices, cores) = if by_device { devices(count) } else { cores(count) };
                ([Role::App, Role::Init, Role::Sidecar][role], devices, cores)
            })
            .collect();
        let request = pod(&containers);
        let mut equal_nodes = EqualNodes::new(&request);
        for node in nodes() {
            prop_assert_eq!(equal_nodes.fits(&node), fits(&request, &node));
        }
    }
}
