//! What is now: gauges that are set when somebody asks. Looked up by the routes in the index.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{OfNode, OfNodeState, OfWatch};

/// What the extender knows at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// The nodes whose devices are known.
    pub(crate) nodes: Vec<NodeNow>,
    /// What binds have chosen that the watch does not show yet.
    pub(crate) reservations: usize,
    /// Pods that ask for Neuron hardware and are not bound.
    pub(crate) waiting: usize,
    /// Pods that hold nobody knows what.
    pub(crate) unknown_holders: usize,
    /// What is watched, and whether the watch tells what happens.
    pub(crate) watches: Vec<(&'static str, bool)>,
}

/// A node's hardware: free, held, unhealthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeNow {
    pub(crate) name: String,
    pub(crate) instance_type: String,
    /// A device of which a core is held is held, an unhealthy one unhealthy, whoever holds it.
    pub(crate) devices: [usize; 3],
    /// Logical cores.
    pub(crate) cores: [usize; 3],
    /// Devices of the largest linked set that a pod could have.
    pub(crate) largest_free_set: usize,
}

/// The gauges that show it.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    devices: Family<OfNodeState, Gauge>,
    cores: Family<OfNodeState, Gauge>,
    largest_free_sets: Family<OfNode, Gauge>,
    reservations: Gauge,
    waiting: Gauge,
    unknown_holders: Gauge,
    watches: Family<OfWatch, Gauge>,
}

impl Gauges {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("devices", "Devices of each node", self.devices.clone());
        registry.register("cores", "Logical cores of each node", self.cores.clone());
        registry.register(
            "largest_free_set",
            "Devices of the largest linked set that is free",
            self.largest_free_sets.clone(),
        );
        registry.register(
            "reservations",
            "Sets that binds have chosen and the watch does not show yet",
            self.reservations.clone(),
        );
        registry.register(
            "pods_waiting",
            "Pods that ask for Neuron hardware and are not bound",
            self.waiting.clone(),
        );
        registry.register(
            "unknown_holders",
            "Bound pods of which nothing says what they hold",
            self.unknown_holders.clone(),
        );
        registry.register("watch_connected", "Whether a watch tells what happens", self.watches.clone());
    }

    pub(super) fn set(&self, now: &Now) {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        // Nodes come and go.
        self.devices.clear();
        self.cores.clear();
        self.largest_free_sets.clear();
        for NodeNow { name, instance_type, devices, cores, largest_free_set } in &now.nodes {
            let (node, instance_type) = (name.clone(), instance_type.clone());
            for (gauges, counts) in [(&self.devices, devices), (&self.cores, cores)] {
                for (state, count) in ["free", "held", "unhealthy"].into_iter().zip(counts) {
                    let labels =
                        OfNodeState { node: node.clone(), instance_type: instance_type.clone(), state };
                    gauges.get_or_create(&labels).set(whole(*count));
                }
            }
            self.largest_free_sets
                .get_or_create(&OfNode { node, instance_type })
                .set(whole(*largest_free_set));
        }
        self.reservations.set(whole(now.reservations));
        self.waiting.set(whole(now.waiting));
        self.unknown_holders.set(whole(now.unknown_holders));
        for (watch, is_connected) in &now.watches {
            self.watches.get_or_create(&OfWatch { watch }).set((*is_connected).into());
        }
    }
}
