//! What is now: gauges of what the routes find in the index when somebody asks.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

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
    /// Pods whose records do not count: the node's report or an older record says otherwise, or they are not readable.
    pub(crate) ignored_records: usize,
    /// Pods that the node's report gives cores of another pod.
    pub(crate) shared: usize,
    /// What is watched.
    pub(crate) watches: Vec<WatchNow>,
    /// Whether this replica places pods: it leads, and has listed them.
    pub(crate) places: bool,
}

/// A watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchNow {
    /// What is watched.
    pub(crate) name: &'static str,
    /// Whether it tells what happens.
    pub(crate) is_connected: bool,
    /// How long the API server has sent nothing; none where it never has.
    pub(crate) silent_for: Option<Duration>,
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
    /// Devices of the largest linked set that is free.
    pub(crate) largest_free_set: usize,
}

/// Shows what was looked up last. Nothing is kept of nodes that are gone, and nothing is copied for thousands of them.
#[derive(Debug, Default)]
pub(super) struct Shown(Mutex<Now>);

impl Shown {
    pub(super) fn set(&self, now: Now) {
        *self.now() = now;
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = self.now();
        let mut by_state = |name: &str, help: &str, counts: fn(&NodeNow) -> [usize; 3]| -> fmt::Result {
            let mut gauges = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for node in &now.nodes {
                for (state, count) in ["free", "held", "unhealthy"].into_iter().zip(counts(node)) {
                    let labels = [of_node(node), of_type(node), ("state", state)];
                    ConstGauge::new(whole(count)).encode(gauges.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        by_state("devices", "Devices of each node.", |node| node.devices)?;
        by_state("cores", "Logical cores of each node.", |node| node.cores)?;
        let help = "Devices of the largest linked set that is free.";
        let mut gauges = encoder.encode_descriptor("largest_free_set", help, None, MetricType::Gauge)?;
        for node in &now.nodes {
            let gauge = ConstGauge::new(whole(node.largest_free_set));
            gauge.encode(gauges.encode_family(&[of_node(node), of_type(node)])?)?;
        }
        for (name, help, count) in [
            (
                "reservations",
                "Sets that binds have chosen and the watch does not show yet.",
                now.reservations,
            ),
            ("pods_waiting", "Pods that ask for Neuron hardware and are not bound.", now.waiting),
            ("unknown_holders", "Bound pods of which nothing says what they hold.", now.unknown_holders),
        ] {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(whole(count)).encode(gauge)?;
        }
        let help = "Bound pods whose record and node report do not agree.";
        let mut gauges = encoder.encode_descriptor("drifted_pods", help, None, MetricType::Gauge)?;
        for (kind, count) in [("ignored_record", now.ignored_records), ("shared_devices", now.shared)] {
            ConstGauge::new(whole(count)).encode(gauges.encode_family(&[("kind", kind)])?)?;
        }
        let leader = encoder.encode_descriptor(
            "leader",
            "Whether this replica places pods.",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(i64::from(now.places)).encode(leader)?;
        let help = "Whether a watch tells what happens.";
        let mut gauges = encoder.encode_descriptor("watch_connected", help, None, MetricType::Gauge)?;
        for watch in &now.watches {
            ConstGauge::new(i64::from(watch.is_connected))
                .encode(gauges.encode_family(&[of_watch(watch)])?)?;
        }
        let help = "Time since the API server sent anything on the watch.";
        let unit = Some(&Unit::Seconds);
        let mut gauges = encoder.encode_descriptor("watch_age", help, unit, MetricType::Gauge)?;
        for watch in &now.watches {
            let age = watch.silent_for.map_or(f64::NAN, |silent_for| silent_for.as_secs_f64());
            ConstGauge::new(age).encode(gauges.encode_family(&[of_watch(watch)])?)?;
        }
        Ok(())
    }
}

fn of_watch(watch: &WatchNow) -> (&'static str, &'static str) {
    ("watch", watch.name)
}

fn of_node(node: &NodeNow) -> (&'static str, &str) {
    ("node", &node.name)
}

fn of_type(node: &NodeNow) -> (&'static str, &str) {
    ("instance_type", &node.instance_type)
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
