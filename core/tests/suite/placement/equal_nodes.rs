//! Equal nodes answer as each of them would.

use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{EqualNodes, fits};
use neuron_core::topology::Policy;
use proptest::prelude::*;

use super::support::{Role, cores, devices, node_at, pod};

/// Nodes that differ in one thing each, and two of every one.
fn nodes() -> Vec<Occupancy> {
    let (documented, linked) = (Policy::Documented, Policy::Linked);
    let one_of_each = [
        node_at("trn2.48xlarge", 1, documented, "", ""),
        node_at("trn2.48xlarge", 2, documented, "", ""),
        node_at("trn2.48xlarge", 2, linked, "", ""),
        node_at("trn2.48xlarge", 2, documented, "0", ""),
        node_at("trn2.48xlarge", 2, documented, "", "0"),
        node_at("trn2.48xlarge", 2, documented, "4,8,20,24,36,40,52,56", ""),
        node_at("inf2.24xlarge", 1, documented, "2,6,10", ""),
        node_at("inf2.24xlarge", 1, documented, "", "1"),
        node_at("inf2.24xlarge", 1, documented, "0,1,2,3,4,5,6,7,8,9,10,11", ""),
    ];
    // Of the same topology, as an index has them.
    one_of_each.iter().chain(&one_of_each).cloned().collect()
}

proptest! {
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
