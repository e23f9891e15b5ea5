//! Who holds what on one node, by its bound pods and its report. The extender and the device plugin both decide it
//! here, so that they cannot disagree.

mod record_counts;
mod shared;

use std::borrow::Borrow;
use std::sync::Arc;

pub use self::record_counts::{IgnoreReason, record_counts};
pub use self::shared::Shared;
use crate::ids::CoreSet;
use crate::occupancy::Occupancy;
use crate::pod::BoundPod;
use crate::record::Allocation;
use crate::report::Reported;
use crate::request::PodRequest;
use crate::topology::Topology;

/// What decides who holds what on one node; of pods owned or borrowed.
#[derive(Clone, Debug)]
pub struct NodeFacts<'a, P = BoundPod> {
    /// The node's name.
    pub name: &'a str,
    /// The node's devices, cores and candidate sets.
    pub topology: Arc<Topology>,
    /// What the node's device plugin reports, if it does.
    pub report: Option<&'a Reported>,
    /// The pods bound to the node, in any order.
    pub pods: &'a [P],
}

/// Who holds what on one node; of pods owned or borrowed.
#[derive(Clone, Debug)]
pub struct Settled<P = BoundPod> {
    /// The cores of all holdings, and the unhealthy devices.
    pub occupancy: Occupancy,
    /// The pods that hold a known set.
    pub holdings: Vec<Holding<P>>,
    /// The records that do not count, and why.
    pub ignored: Vec<Ignored>,
    /// The pods that hold a set of which nothing says what it is; the node takes no new Neuron pod while there is
    /// one.
    pub unknown: Vec<UnknownHolder>,
    /// The pods that the report gives cores of another one.
    pub shared: Vec<Shared>,
}

/// A pod that holds a known set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding<P = BoundPod> {
    /// The pod.
    pub pod: P,
    /// The pod's record; `None` if only the report says what it holds.
    pub allocation: Option<Arc<Allocation>>,
    /// Every logical core that it holds under either name.
    pub cores: CoreSet,
    /// What says so.
    pub source: Source,
}

/// What says what a pod holds.
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
    pub uid: Arc<str>,
    /// The pod as `namespace/name`.
    pub pod: String,
    /// Why, in the words of the pod's event.
    pub reason: String,
}

/// A pod that holds a set of which nothing says what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownHolder {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod as `namespace/name`.
    pub pod: String,
}

/// Settles who holds what. Records that the report confirms come first, then the others by the time when their pods
/// were bound and by UID; a record that overlaps one before it does not count.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
///
/// use neuron_core::catalog::Catalog;
/// use neuron_core::holders::{NodeFacts, settle};
/// use neuron_core::pod::{BoundPod, PodSpec};
/// use neuron_core::topology::{Policy, Topology};
///
/// let inf2 = Catalog::embedded().find("inf2.24xlarge").ok_or("no such type")?;
/// let topology = Arc::new(Topology::of(inf2, 1, Policy::Documented)?);
///
/// let spec: PodSpec = serde_json::from_str(
///     r#"{"containers":[{"name":"main","resources":{"limits":{"aws.amazon.com/neuroncore":"2"}}}]}"#,
/// )?;
/// let record = r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"cores":[2,3]}}}"#;
/// let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_owned())]);
/// let pods = [BoundPod::new("default", "train", "uid-1", annotations, &spec, None)];
///
/// let settled = settle(&NodeFacts { name: "n1", topology, report: None, pods: &pods });
/// assert_eq!(settled.holdings[0].full_name(), "default/train");
/// assert_eq!(settled.occupancy.held().to_string(), "2,3");
/// assert_eq!(settled.occupancy.free_devices().to_string(), "0,2,3,4,5");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn settle<P: Borrow<BoundPod> + Clone>(facts: &NodeFacts<'_, P>) -> Settled<P> {
    let mut settled = Settled {
        occupancy: Occupancy::empty(facts.topology.clone()),
        holdings: Vec::with_capacity(facts.pods.len()),
        ignored: Vec::new(),
        unknown: Vec::new(),
        shared: Vec::new(),
    };
    if let Some(report) = facts.report {
        // A device that the report leaves out is lost.
        let missing = facts.topology.all_devices().difference(report.devices);
        settled.occupancy.set_unhealthy(report.unhealthy.union(missing));
    }
    let (mut waiting, mut reported) = (Vec::new(), Vec::new());
    let pods = facts.pods.iter().map(|kept| (kept, kept.borrow()));
    let mut living: Vec<(&P, &BoundPod)> = pods.filter(|(_, pod)| !pod.terminal).collect();
    // The outcome must not depend on the order in which a watch delivered the pods.
    living.sort_by_key(|(_, pod)| &pod.uid);
    for (kept, pod) in living {
        let record = record_counts(pod, facts.name, &facts.topology);
        match reported_cores(facts.report, &facts.topology, pod) {
            Some(cores) => {
                settled.hold_reported(kept, record, cores);
                reported.push((pod, cores));
            }
            None => match record {
                Ok(Some(allocation)) => waiting.push((kept, allocation)),
                Ok(None) if pod.request.as_ref().is_ok_and(PodRequest::is_empty) => {}
                Ok(None) => settled.hold_unknown(pod),
                Err(reason) => settled.ignore(pod, &reason),
            },
        }
    }
    settled.shared = shared::shared(&reported);
    // A pod without a time counts as bound last.
    waiting.sort_by_key(|(kept, _)| {
        let pod: &BoundPod = (*kept).borrow();
        (pod.scheduled_at.is_none(), &pod.scheduled_at, &pod.uid)
    });
    for (kept, allocation) in waiting {
        let cores = allocation.hardware(&facts.topology);
        match settled.holdings.iter().find(|holding| holding.cores.intersects(cores)) {
            None => settled.hold(kept, Some(allocation), cores, Source::Record),
            Some(first) => {
                let taken = first.cores.intersection(cores);
                let reason = IgnoreReason::Overlap { cores: taken, holder: first.full_name().to_owned() };
                settled.ignore(kept.borrow(), &reason);
            }
        }
    }
    settled
}

/// The cores that kubelet gave the pod by the report; `None` if the report does not name the pod.
fn reported_cores(report: Option<&Reported>, topology: &Topology, pod: &BoundPod) -> Option<CoreSet> {
    let holders = report.map(|report| &*report.holders).unwrap_or_default();
    let named = holders.iter().filter(|(uid, _)| **uid == *pod.uid);
    let cores = named.fold(CoreSet::EMPTY, |cores, (_, given)| cores.union(*given));
    Some(cores.intersection(topology.all_cores())).filter(|cores| !cores.is_empty())
}

impl<P: Borrow<BoundPod>> Holding<P> {
    /// The pod's UID.
    pub fn uid(&self) -> &str {
        &self.pod.borrow().uid
    }

    /// The pod as `namespace/name`.
    pub fn full_name(&self) -> &str {
        &self.pod.borrow().full_name
    }
}

impl<P: Borrow<BoundPod> + Clone> Settled<P> {
    /// A pod that the report names holds what kubelet gave it, whatever its record says, and of its record what it was not given yet.
    fn hold_reported(
        &mut self,
        kept: &P,
        record: Result<Option<Arc<Allocation>>, IgnoreReason>,
        cores: CoreSet,
    ) {
        let (topology, pod) = (self.occupancy.topology().clone(), kept.borrow());
        match record {
            Ok(Some(allocation)) => {
                let recorded = allocation.hardware(&topology);
                // Less than the record confirms it: kubelet may choose among handed-down ids, and the report leaves
                // out what an init container had that has ended.
                if cores.is_subset(recorded) {
                    self.hold(kept, Some(allocation), recorded, Source::ConfirmedRecord);
                } else {
                    self.ignored
                        .push(Ignored::of(pod, &IgnoreReason::Contradicted { recorded, given: cores }));
                    // kubelet gives one container after another: what it has not given yet may still be as recorded.
                    let is_part = cores.len() < recorded.len();
                    let held = if is_part { cores.union(recorded) } else { cores };
                    self.hold(kept, None, held, Source::Report);
                }
            }
            Ok(None) => self.hold(kept, None, cores, Source::Report),
            Err(reason) => {
                self.ignored.push(Ignored::of(pod, &reason));
                self.hold(kept, None, cores, Source::Report);
            }
        }
    }

    fn hold(&mut self, pod: &P, allocation: Option<Arc<Allocation>>, cores: CoreSet, source: Source) {
        self.occupancy.hold(cores);
        self.holdings.push(Holding { pod: pod.clone(), allocation, cores, source });
    }

    fn hold_unknown(&mut self, pod: &BoundPod) {
        self.unknown.push(UnknownHolder { uid: pod.uid.clone(), pod: (*pod.full_name).to_owned() });
    }

    /// A record that does not count; a pod that requests hardware holds an unknown set then.
    fn ignore(&mut self, pod: &BoundPod, reason: &IgnoreReason) {
        self.ignored.push(Ignored::of(pod, reason));
        if *reason != IgnoreReason::NothingRequested {
            self.hold_unknown(pod);
        }
    }
}

impl Ignored {
    fn of(pod: &BoundPod, reason: &IgnoreReason) -> Ignored {
        let reason = format!("The pod's Neuron allocation record does not count: {reason}");
        Ignored { uid: pod.uid.clone(), pod: (*pod.full_name).to_owned(), reason }
    }
}
