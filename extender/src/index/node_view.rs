//! One node as filter and bind see it: settled once when its inputs change, then only read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuron_core::claim::Claim;
use neuron_core::device_model::DeviceModels;
use neuron_core::holders::{NodeFacts, Settled, record_counts, settle};
use neuron_core::ids::CoreSet;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{EqualNodes, RankNumber, Ranks};
use neuron_core::pod::BoundPod;
use neuron_core::report::Reported;
use neuron_core::request::PodRequest;
use neuron_core::topology::Topology;
use tokio::time::Instant;

use super::{Advertised, NodeRefusal, ObservedNode, Reservation, Reserved, TopologyCache, UNKNOWN_AT_MOST};

/// What is kept of a node as the watch shows it, with its topology looked up: once for each change of the node, not of its pods.
#[derive(Clone, Debug)]
pub(super) struct IndexedNode {
    number: NodeNumber,
    /// The label and what the report says of the hardware are in it.
    topology: Result<Arc<Topology>, Box<NodeRefusal>>,
    /// What its plugin reports beside that, if it can be read.
    reported: Option<Reported>,
    /// The rules that its plugin says it follows, if they are not the ones by which pods are placed.
    other_rules: Option<Box<str>>,
    advertised: Advertised,
}

/// Stands for a node's name where many are kept; a node that is made anew has another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeNumber(u32);

/// One node with its holders.
#[derive(Debug)]
pub(crate) struct NodeView {
    /// The node's name.
    pub(crate) name: Arc<str>,
    /// Stands for the name in admissions.
    pub(crate) number: NodeNumber,
    advertised: Advertised,
    /// When the node's plugin counts as gone unless it renews its Lease; none if the node has none, or it is not followed.
    pub(super) lease_ends: Option<Instant>,
    /// Since when nothing has said what a pod holds, by UID.
    unknown_since: BTreeMap<Arc<str>, Instant>,
    reserved: Reserved,
    state: State,
}

#[derive(Debug)]
enum State {
    Known {
        settled: Box<Settled<Arc<BoundPod>>>,
        /// What the holders have and what is reserved beside them.
        occupancy: Occupancy,
        unknown_holder: Option<Box<NodeRefusal>>,
    },
    /// The node's topology is not known.
    Unknown(Box<NodeRefusal>),
}

impl From<u32> for NodeNumber {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl PartialEq for IndexedNode {
    /// Whether the same follows from both for pods. Equal topologies are mostly one in memory; where they are not, the node is settled again.
    fn eq(&self, other: &Self) -> bool {
        let is_same_topology = match (&self.topology, &other.topology) {
            (Ok(one), Ok(other)) => Arc::ptr_eq(one, other),
            (Err(one), Err(other)) => one == other,
            _ => false,
        };
        is_same_topology
            && self.number == other.number
            && self.reported == other.reported
            && self.other_rules == other.other_rules
            && self.advertised == other.advertised
    }
}

impl IndexedNode {
    pub(super) fn new(observed: ObservedNode, number: NodeNumber, topologies: &mut TopologyCache) -> Self {
        let topology = topology_of(&observed, topologies).map_err(Box::new);
        let report =
            topology.as_ref().ok().and(observed.report.as_ref()).and_then(|report| report.as_ref().ok());
        let rules = report.and_then(|report| report.rules.as_deref());
        let other_rules = rules.filter(|rules| *rules != topologies.rules()).map(Box::from);
        let reported = report.map(Reported::from);
        Self { number, topology, reported, other_rules, advertised: observed.advertised }
    }

    /// The rules that the node's plugin says it follows, if they are not the ones by which pods are placed.
    pub(super) fn other_rules(&self) -> Option<&str> {
        self.other_rules.as_deref()
    }

    /// The node's number.
    pub(super) fn number(&self) -> NodeNumber {
        self.number
    }
}

fn topology_of(node: &ObservedNode, topologies: &mut TopologyCache) -> Result<Arc<Topology>, NodeRefusal> {
    let report = node.report.as_ref().map(Result::as_ref).transpose();
    let report = report.map_err(|why| NodeRefusal::Report(why.clone()))?;
    Ok(topologies.of(node.instance_type.as_deref(), report)?)
}

impl NodeView {
    /// The node with the pods that are bound to it, and nothing reserved.
    pub(super) fn new(name: Arc<str>, node: &IndexedNode, pods: &[Arc<BoundPod>]) -> Self {
        let state = match &node.topology {
            Ok(topology) => {
                let topology = Arc::clone(topology);
                let settled =
                    settle(&NodeFacts { name: &name, topology, report: node.reported.as_ref(), pods });
                // Planted: what only an init container was given counts as free, although kubelet keeps it for the pod.
                #[cfg(planted)]
                let settled = if runtime::is_planted("init-containers-left-out") {
                    without_init_containers(settled)
                } else {
                    settled
                };
                State::Known {
                    occupancy: settled.occupancy.clone(),
                    unknown_holder: unknown_holder(&settled, &BTreeSet::new()).map(Box::new),
                    settled: Box::new(settled),
                }
            }
            Err(refusal) => State::Unknown(refusal.clone()),
        };
        let (advertised, reserved) = (node.advertised, Reserved::default());
        Self {
            name,
            number: node.number,
            advertised,
            lease_ends: None,
            unknown_since: BTreeMap::new(),
            reserved,
            state,
        }
    }

    /// Has these cores held beside what the holders have, instead of what was reserved before.
    pub(super) fn reserve(&mut self, reserved: Reserved) {
        // Planted: what other binds have chosen counts only once the watch shows it.
        #[cfg(planted)]
        if runtime::is_planted("reservations-ignored") {
            return;
        }
        self.reserved = reserved;
        if let State::Known { settled, occupancy, .. } = &mut self.state {
            *occupancy = settled.occupancy.clone();
            occupancy.hold(reserved.all);
        }
    }

    /// Whether a pod with this claim may run here at all.
    ///
    /// # Errors
    /// The node has a device plugin, and kubelet would not ask it.
    pub(crate) fn admits_claim(&self, claim: Option<&Claim>) -> Result<(), NodeRefusal> {
        match claim {
            Some(claim) if self.advertised.any => Err(NodeRefusal::claimed(claim)),
            _ => Ok(()),
        }
    }

    /// Whether the node's plugin renews its Lease, where renewals were seen until this time; none before the first list of Leases. A node
    /// without a Lease is served.
    ///
    /// # Errors
    /// It does not: kubelet may go on to advertise what nobody answers for.
    pub(crate) fn has_a_living_plugin(&self, seen_until: Option<Instant>) -> Result<(), NodeRefusal> {
        match self.lease_ends.zip(seen_until) {
            Some((ends, seen_until)) if seen_until >= ends => {
                Err(NodeRefusal::PluginSilent { node: self.name.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Whether the node's device plugin has everything that is requested, in whatever number.
    pub(crate) fn advertises(&self, request: &PodRequest) -> bool {
        self.advertised.covers(request)
    }

    /// Whether the pod fits now.
    ///
    /// # Errors
    /// Why it does not. A node with an unknown holder takes no pod, but where what is known leaves no room, that is the answer: whatever
    /// the holder has, there is no more.
    pub(crate) fn fits(&self, pod: &mut EqualNodes) -> Result<(), NodeRefusal> {
        let (occupancy, unknown_holder) = self.known()?;
        match (pod.fits(occupancy), unknown_holder) {
            (Err(_), _) if self.would_fit_without_unclear(pod) => {
                Err(NodeRefusal::UnclearReservation { node: self.name.to_string() })
            }
            (Err(refusal), _) => Err(refusal.into()),
            (Ok(()), Some(unknown_holder)) => Err(unknown_holder.clone()),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Whether only reservations keep the pod out of which it is open what became of their Bindings: nobody sees a change when they end.
    fn would_fit_without_unclear(&self, pod: &mut EqualNodes) -> bool {
        let Reserved { all, clear } = self.reserved;
        all != clear && self.fits_without(&BTreeSet::new(), clear, pod).is_ok()
    }

    /// Whether the pod would fit without these pods, by UID, and beside what is reserved.
    ///
    /// # Errors
    /// Why it would not.
    pub(super) fn fits_without(
        &self,
        gone: &BTreeSet<Arc<str>>,
        reserved: CoreSet,
        pod: &mut EqualNodes,
    ) -> Result<(), NodeRefusal> {
        let settled = match &self.state {
            State::Known { settled, .. } => settled,
            State::Unknown(refusal) => return Err((**refusal).clone()),
        };
        if let Some(refusal) = unknown_holder(settled, gone) {
            return Err(refusal);
        }
        let mut occupancy = Occupancy::empty(Arc::clone(settled.occupancy.topology()));
        occupancy.set_unhealthy(settled.occupancy.unhealthy());
        occupancy.hold(reserved);
        for holding in settled.holdings.iter().filter(|holding| !gone.contains(holding.uid())) {
            occupancy.hold(holding.cores);
        }
        Ok(pod.fits(&occupancy)?)
    }

    /// How well the node suits the pod; none if it does not fit now, or asks for nothing.
    pub(crate) fn rank(&self, pod: &mut Ranks) -> Option<RankNumber> {
        match self.known() {
            Ok((occupancy, None)) => pod.number(occupancy),
            _ => None,
        }
    }

    /// Whether the node is of a model that the pod's author wants.
    ///
    /// # Errors
    /// It is of another one.
    pub(crate) fn is_of(&self, models: &DeviceModels) -> Result<(), NodeRefusal> {
        let topology = self.known()?.0.topology();
        match models.place_of(topology) {
            Some(_) => Ok(()),
            None => Err(NodeRefusal::OtherModel {
                wanted: Arc::clone(models.text()),
                instance_type: topology.instance_type().to_owned(),
            }),
        }
    }

    /// What is taken of a node that takes pods: what is free is to be chosen from.
    ///
    /// # Errors
    /// It takes none: its topology, or what a holder has, is not known.
    pub(crate) fn takes_pods(&self) -> Result<&Occupancy, NodeRefusal> {
        let (occupancy, unknown_holder) = self.known()?;
        unknown_holder.map_or(Ok(occupancy), |unknown_holder| Err(unknown_holder.clone()))
    }

    /// Whether the node takes pods and nothing of it has been taken, freed, broken or healed since it was looked at.
    pub(crate) fn is_still(&self, before: &Occupancy) -> bool {
        self.takes_pods().is_ok_and(|now| {
            Arc::ptr_eq(now.topology(), before.topology())
                && (now.held(), now.unhealthy()) == (before.held(), before.unhealthy())
        })
    }

    /// Whether the pod, which is bound to this node, has a record that counts.
    pub(crate) fn has_record_of(&self, pod: &BoundPod) -> bool {
        let ignored =
            self.settled().is_some_and(|settled| settled.ignored.iter().any(|one| one.uid == pod.uid));
        self.reads_record_of(pod) && !ignored
    }

    /// Whether the pod's record, looked at by itself, is one for this node.
    pub(crate) fn reads_record_of(&self, pod: &BoundPod) -> bool {
        self.topology()
            .is_some_and(|topology| matches!(record_counts(pod, &self.name, topology), Ok(Some(_))))
    }

    /// Who holds what; `None` if the node's topology is not known.
    pub(crate) fn settled(&self) -> Option<&Settled<Arc<BoundPod>>> {
        match &self.state {
            State::Known { settled, .. } => Some(settled),
            State::Unknown(_) => None,
        }
    }

    /// `None` if the node's topology is not known.
    pub(crate) fn topology(&self) -> Option<&Arc<Topology>> {
        self.settled().map(|settled| settled.occupancy.topology())
    }

    /// The node was settled anew: a holder that was unknown before is so for as long.
    pub(super) fn follows(&mut self, before: Option<&NodeView>) {
        let unknown = self.settled().map(|settled| settled.unknown.as_slice()).unwrap_or_default();
        let since = |uid| before.and_then(|before| before.unknown_since.get(uid).copied());
        let unknown = unknown.iter().map(|holder| &holder.uid);
        self.unknown_since =
            unknown.map(|uid| (Arc::clone(uid), since(uid).unwrap_or_else(Instant::now))).collect();
    }

    /// Whether a report may say in a moment what a holder has, other than these pods, by UID.
    pub(super) fn has_new_unknown_holder(&self, gone: &BTreeSet<Arc<str>>) -> bool {
        let mut stay = self.unknown_since.iter().filter(|(uid, _)| !gone.contains(*uid));
        stay.any(|(_, since)| since.elapsed() <= UNKNOWN_AT_MOST)
    }

    /// How many cores count as taken.
    pub(super) fn cores_taken(&self) -> usize {
        self.known().map_or(0, |(occupancy, _)| occupancy.held().len() as usize)
    }

    /// Whether the cores of a reservation can still be given: the node has the devices and cores that it had, none is on a device that is
    /// unhealthy, and no pod has one meanwhile, nor may have it.
    pub(crate) fn can_still_give(&self, reservation: &Reservation) -> bool {
        let State::Known { settled, unknown_holder: None, .. } = &self.state else { return false };
        let (occupancy, cores) = (&settled.occupancy, reservation.chosen);
        reservation.topology.as_ref().is_some_and(|before| before == occupancy.topology())
            && !cores.intersects(occupancy.topology().cores_of(occupancy.unhealthy()))
            && !cores.intersects(occupancy.held())
    }

    /// Whether anything says that the node has Neuron devices.
    pub(crate) fn is_neuron(&self) -> bool {
        !matches!(&self.state, State::Unknown(refusal) if refusal.is_no_neuron_node())
    }

    /// What is taken, and whether somebody holds what nobody knows.
    ///
    /// # Errors
    /// The node's topology is not known.
    pub(crate) fn known(&self) -> Result<(&Occupancy, Option<&NodeRefusal>), NodeRefusal> {
        match &self.state {
            State::Known { occupancy, unknown_holder, .. } => Ok((occupancy, unknown_holder.as_deref())),
            State::Unknown(refusal) => Err((**refusal).clone()),
        }
    }
}

/// Pods of which nothing says what they hold, but for those that are gone.
fn unknown_holder(settled: &Settled<Arc<BoundPod>>, gone: &BTreeSet<Arc<str>>) -> Option<NodeRefusal> {
    let stay = settled.unknown.iter().filter(|holder| !gone.contains(&*holder.uid));
    let mut pods: Vec<&str> = stay.map(|holder| holder.pod.as_str()).collect();
    pods.sort_unstable();
    (!pods.is_empty()).then(|| NodeRefusal::UnknownHolder { pods: pods.join(", ") })
}

#[cfg(planted)]
fn without_init_containers(mut settled: Settled<Arc<BoundPod>>) -> Settled<Arc<BoundPod>> {
    let topology = settled.occupancy.topology().clone();
    for holding in &settled.holdings {
        let (Ok(request), Some(allocation)) = (&holding.pod.request, &holding.allocation) else { continue };
        let mut stays = (**allocation).clone();
        let is_init = |name: &str| {
            request
                .containers
                .iter()
                .any(|one| *one.name == *name && one.role == neuron_core::request::Role::Init)
        };
        stays.containers.retain(|name, _| !is_init(name));
        settled.occupancy.release(holding.cores.difference(stays.hardware(&topology)));
    }
    settled
}
