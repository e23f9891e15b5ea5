//! Who holds what on one node, from its bound pods and its report. The extender and the device plugin
//! both ask here, so that they cannot disagree.

mod record_counts;

use std::sync::Arc;

pub use self::record_counts::{Ignore, record_counts};
use crate::ids::CoreSet;
use crate::occupancy::Occupancy;
use crate::pod::BoundPod;
use crate::record::Allocation;
use crate::report::NodeReport;
use crate::request::PodRequest;
use crate::topology::Topology;
pub use crate::topology::{NodeRefusal, topology_of};

/// What is known about one node.
#[derive(Clone, Debug)]
pub struct NodeFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its shape.
    pub topology: Arc<Topology>,
    /// Its plugin's report, if there is one.
    pub report: Option<&'a NodeReport>,
    /// The pods bound to it.
    pub pods: &'a [BoundPod],
}

/// Who holds what on one node.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Held cores and unhealthy devices.
    pub occupancy: Occupancy,
    /// The pods that hold a known set.
    pub holdings: Vec<Holding>,
    /// Records that do not count, and why.
    pub ignored: Vec<Ignored>,
    /// Pods that hold a set nobody knows: the node takes no new Neuron pod while there is one.
    pub unknown: Vec<UnknownHolder>,
}

/// A pod that holds a known set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The pod's UID.
    pub uid: String,
    /// The pod as `namespace/name`.
    pub pod: String,
    /// Its record; none if only the report says what it holds.
    pub allocation: Option<Allocation>,
    /// Every core it holds under either name.
    pub cores: CoreSet,
    /// Where this is known from.
    pub source: Source,
}

/// Where a holding is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The pod's record.
    Record,
    /// The pod's record, and the node's report agrees.
    ConfirmedRecord,
    /// The node's report alone.
    Report,
}

/// A record that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// The pod's UID.
    pub uid: String,
    /// The pod as `namespace/name`.
    pub pod: String,
    /// Why, for the pod's events.
    pub why: String,
}

/// A pod that holds a set nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownHolder {
    /// The pod's UID.
    pub uid: String,
    /// The pod as `namespace/name`.
    pub pod: String,
}

/// Settles who holds what. Records that the report confirms come first, then the others by the time they
/// were bound and by UID; a record that overlaps one before it does not count.
pub fn settle(facts: &NodeFacts) -> Settled {
    let mut settled = Settled {
        occupancy: Occupancy::empty(facts.topology.clone()),
        holdings: Vec::new(),
        ignored: Vec::new(),
        unknown: Vec::new(),
    };
    if let Some(report) = facts.report {
        // A device that the report leaves out is not there.
        let missing = facts.topology.all_devices().difference(report.device_ids());
        settled.occupancy.set_unhealthy(report.unhealthy().union(missing));
    }
    let mut waiting = Vec::new();
    let mut living: Vec<&BoundPod> = facts.pods.iter().filter(|pod| !pod.terminal).collect();
    // The answer must not hang on the order in which a watch delivered the pods.
    living.sort_by_key(|pod| &pod.uid);
    for pod in living {
        let record = record_counts(pod, facts.name, &facts.topology);
        match given(facts, pod) {
            Some(cores) => settled.reported(pod, record, cores),
            None => match record {
                Ok(Some(allocation)) => waiting.push((pod, allocation)),
                Ok(None) if pod.request.as_ref().is_ok_and(PodRequest::is_empty) => {}
                Ok(None) => {
                    settled.unknown.push(UnknownHolder { uid: pod.uid.clone(), pod: pod.full_name() })
                }
                Err(ignore) => settled.ignore(pod, &ignore),
            },
        }
    }
    // Without a time a pod counts as bound last.
    waiting.sort_by_key(|(pod, _)| (pod.scheduled_at.is_none(), &pod.scheduled_at, &pod.uid));
    for (pod, allocation) in waiting {
        let cores = allocation.hardware(&facts.topology);
        match settled.holdings.iter().find(|holding| holding.cores.intersects(cores)) {
            None => settled.hold(pod, Some(allocation), cores, Source::Record),
            Some(first) => {
                let taken = first.cores.intersection(cores);
                let ignore = Ignore::Overlap { cores: taken, holder: first.pod.clone() };
                settled.ignore(pod, &ignore);
            }
        }
    }
    settled
}

/// What the report says kubelet gave the pod; `None` if it does not name it.
fn given(facts: &NodeFacts, pod: &BoundPod) -> Option<CoreSet> {
    let holders = facts.report.map(|report| report.holders.as_slice()).unwrap_or_default();
    let named = holders.iter().filter(|holder| holder.uid == pod.uid);
    let cores = named.fold(CoreSet::EMPTY, |cores, holder| cores.union(holder.cores));
    Some(cores.intersection(facts.topology.all_cores())).filter(|cores| !cores.is_empty())
}

impl Settled {
    /// A pod that the report names: what kubelet really gave it wins over its record.
    fn reported(&mut self, pod: &BoundPod, record: Result<Option<Allocation>, Ignore>, cores: CoreSet) {
        let topology = self.occupancy.topology().clone();
        match record {
            Ok(Some(allocation)) => {
                let recorded = allocation.hardware(&topology);
                // Less than the record is agreement: kubelet may pick among a set that was handed down, and
                // the devices of an init container that has ended are not listed.
                if cores.is_subset(recorded) {
                    self.hold(pod, Some(allocation), recorded, Source::ConfirmedRecord);
                } else {
                    self.ignored.push(Ignored::of(pod, &Ignore::Contradicted { recorded, given: cores }));
                    self.hold(pod, None, cores, Source::Report);
                }
            }
            Ok(None) => self.hold(pod, None, cores, Source::Report),
            Err(ignore) => {
                self.ignored.push(Ignored::of(pod, &ignore));
                self.hold(pod, None, cores, Source::Report);
            }
        }
    }

    fn hold(&mut self, pod: &BoundPod, allocation: Option<Allocation>, cores: CoreSet, source: Source) {
        self.occupancy.hold(cores);
        self.holdings.push(Holding { uid: pod.uid.clone(), pod: pod.full_name(), allocation, cores, source });
    }

    /// A record that does not count; a pod that asks for hardware holds an unknown set then.
    fn ignore(&mut self, pod: &BoundPod, ignore: &Ignore) {
        self.ignored.push(Ignored::of(pod, ignore));
        if *ignore != Ignore::AsksNothing {
            self.unknown.push(UnknownHolder { uid: pod.uid.clone(), pod: pod.full_name() });
        }
    }
}

impl Ignored {
    fn of(pod: &BoundPod, ignore: &Ignore) -> Ignored {
        let why = format!("The pod's Neuron allocation record does not count: {ignore}");
        Ignored { uid: pod.uid.clone(), pod: pod.full_name(), why }
    }
}
