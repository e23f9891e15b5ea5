//! The clusters that are asked about: 500 nodes of two types, each empty, half held, or unlike every other. Used by the bench `verbs`.

use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_extender::measured::MeasuredNode;

/// How many nodes a cluster has.
pub(crate) const NODES: u32 = 500;

/// The types of the nodes, in turns. Both have 16 devices on a torus.
const TYPES: [&str; 2] = ["trn1.32xlarge", "trn2.48xlarge"];

/// Devices of a node on which something may be held where all nodes are unlike: those after them are free, so that every pod fits on
/// every node, and what is answered is what it is compared with.
const UNLIKE: u8 = 11;

/// A cluster.
#[derive(Clone, Copy)]
pub(crate) struct Cluster {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What is held on the node of this number, which has so many logical cores on each device.
    held: fn(u32, u8) -> CoreSet,
}

/// The clusters.
pub(crate) const CLUSTERS: [Cluster; 3] = [
    Cluster { name: "empty", held: |_, _| CoreSet::EMPTY },
    Cluster { name: "half held", held: |_, cores| CoreSet::run(0, 8 * cores) },
    ALL_DIFFERENT,
];

/// The one of whose nodes none is like another.
pub(crate) const ALL_DIFFERENT: Cluster = Cluster { name: "all different", held: different };

impl Cluster {
    /// Its nodes.
    pub(crate) fn nodes(self) -> Vec<MeasuredNode> {
        (0..NODES).zip(TYPES.into_iter().cycle()).map(|(number, kind)| self.node(number, kind)).collect()
    }

    fn node(self, number: u32, kind: &str) -> MeasuredNode {
        let model = Catalog::embedded().find(kind).expect("a type of the catalog");
        let held = (self.held)(number, model.cores_per_device / model.default_lnc);
        // As EC2 calls its machines.
        let name = format!("ip-10-0-{}-{}.us-west-2.compute.internal", number / 250, number % 250);
        MeasuredNode { name, instance_type: kind.to_owned(), held }
    }
}

/// Of each device nothing, a core or all of it: the digits of another number for every node.
fn different(number: u32, cores: u8) -> CoreSet {
    // A prime, so that neighbours have little in common, modulo as many as there are.
    let mut digits = number * 7919 % 3u32.pow(u32::from(UNLIKE));
    let mut held = CoreSet::EMPTY;
    for device in 0..UNLIKE {
        let on_device = match digits % 3 {
            0 => 0,
            1 => 1,
            _ => cores,
        };
        held = held.union(CoreSet::run(device * cores, on_device));
        digits /= 3;
    }
    held
}
