//! Whether one pod's record counts, looked at by itself. Called by [`super::settle`] and by the device plugin.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::CoreSet;
use crate::names::Resource;
use crate::pod::BoundPod;
use crate::record::{Allocation, ContainerAllocation, RecordError, Recorded};
use crate::request::{ContainerRequest, PodRequest, RequestError, Role};
use crate::topology::Topology;

/// Why a record does not count. Each text ends a sentence and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignore {
    /// Not readable.
    #[error("{0}; recreate the pod")]
    Malformed(#[from] RecordError),
    /// The pod's own request is not readable.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// A record on a pod that asks for nothing.
    #[error("the pod asks for no Neuron device or core; remove the annotation")]
    AsksNothing,
    /// Written for another node.
    #[error("it names node {record}, the pod runs on {node}; recreate the pod")]
    Node {
        /// The node in the record.
        record: String,
        /// The pod's node.
        node: String,
    },
    /// Written for another logical core size.
    #[error("its core ids are for LNC {record}, the node runs with LNC {node}; recreate the pod")]
    Lnc {
        /// The LNC in the record.
        record: u8,
        /// The node's LNC.
        node: u8,
    },
    /// Not what a container asks for.
    #[error(
        "it gives container {container} {given} {noun}(s), the container asks for {asked}; recreate the pod"
    )]
    Count {
        /// The container.
        container: String,
        /// `device` or `core`.
        noun: &'static str,
        /// How many the record gives.
        given: u32,
        /// How many the container asks for.
        asked: u32,
    },
    /// AWS' keys with another number of ids than the pod asks for.
    #[error("it names {given} {noun}(s), the pod asks for {asked}; recreate the pod")]
    Total {
        /// `device` or `core`.
        noun: &'static str,
        /// How many ids there are.
        given: u32,
        /// How many the pod asks for.
        asked: u32,
    },
    /// AWS' keys do not say what the ids count, and the pod asks for both.
    #[error(
        "it does not say whether its ids are devices or cores, and the pod asks for both; recreate the pod"
    )]
    WhichResource,
    /// An id that the node does not have.
    #[error("it names {noun} {ids}, the node has {noun} 0 to {last}; recreate the pod")]
    OutOfRange {
        /// `device` or `core`.
        noun: &'static str,
        /// The ids that are too large.
        ids: String,
        /// The largest id of the node.
        last: u8,
    },
    /// Two containers that run at the same time, or one under both names, with the same hardware.
    #[error(
        "it gives container {container} core(s) {cores}, which at the same time it gives out under the other name or to another container; recreate the pod"
    )]
    Shared {
        /// The container.
        container: String,
        /// The cores in question.
        cores: CoreSet,
    },
    /// Held by a pod whose record comes first.
    #[error("core(s) {cores} are held by pod {holder}, which comes first; recreate this pod")]
    Overlap {
        /// The cores in question.
        cores: CoreSet,
        /// That pod as `namespace/name`.
        holder: String,
    },
    /// The node's report says otherwise.
    #[error("it says core(s) {recorded}, kubelet gave the pod core(s) {given}, which is what counts")]
    Contradicted {
        /// What the record says.
        recorded: CoreSet,
        /// What the report says.
        given: CoreSet,
    },
}

/// A pod's record looked at by itself, for a pod bound to `node`; `None` if it has none. Containers of
/// AWS' keys, which say no container, are served in the order in which kubelet starts them.
pub fn record_counts(pod: &BoundPod, node: &str, topology: &Topology) -> Result<Option<Allocation>, Ignore> {
    let request = pod.request.as_ref().map_err(Clone::clone)?;
    let Some(recorded) = pod.record.clone()? else { return Ok(None) };
    if request.is_empty() {
        return Err(Ignore::AsksNothing);
    }
    let allocation = match recorded {
        Recorded::Ours(allocation) => allocation,
        Recorded::Aws { resource, ids } => {
            let containers = deal(request, resource, &ids, topology)?;
            Allocation { node: node.to_owned(), lnc: topology.lnc(), containers }
        }
    };
    if allocation.node != node {
        return Err(Ignore::Node { record: allocation.node, node: node.to_owned() });
    }
    if allocation.lnc != topology.lnc() {
        return Err(Ignore::Lnc { record: allocation.lnc, node: topology.lnc() });
    }
    counts(request, &allocation)?;
    in_range(
        Resource::Device,
        &allocation.union_devices().difference(topology.all_devices()).to_string(),
        topology,
    )?;
    in_range(
        Resource::Core,
        &allocation.union_cores().difference(topology.all_cores()).to_string(),
        topology,
    )?;
    disjoint(request, &allocation, topology)?;
    Ok(Some(allocation))
}

fn counts(request: &PodRequest, allocation: &Allocation) -> Result<(), Ignore> {
    let asked: BTreeMap<&str, &ContainerRequest> =
        request.containers.iter().map(|container| (container.name.as_str(), container)).collect();
    let recorded = allocation.containers.keys().map(String::as_str);
    let names: BTreeSet<&str> = asked.keys().copied().chain(recorded).collect();
    for name in names {
        let given = allocation.containers.get(name).copied().unwrap_or_default();
        let pairs = [(Resource::Device, given.devices.len()), (Resource::Core, given.cores.len())];
        for (resource, given) in pairs {
            let asked = asked.get(name).map_or(0, |container| container.count(resource));
            if given != asked {
                return Err(Ignore::Count {
                    container: name.to_owned(),
                    noun: resource.noun(),
                    given,
                    asked,
                });
            }
        }
    }
    Ok(())
}

/// `beyond` is the comma list of ids that the node does not have.
fn in_range(resource: Resource, beyond: &str, topology: &Topology) -> Result<(), Ignore> {
    let last = match resource {
        Resource::Device => topology.devices(),
        Resource::Core => topology.cores(),
    };
    if beyond.is_empty() {
        return Ok(());
    }
    Err(Ignore::OutOfRange { noun: resource.noun(), ids: beyond.to_owned(), last: last.saturating_sub(1) })
}

/// Init containers end before the next one starts, so that their hardware may be given again.
fn disjoint(request: &PodRequest, allocation: &Allocation, topology: &Topology) -> Result<(), Ignore> {
    let mut running = CoreSet::EMPTY;
    for container in &request.containers {
        let given = allocation.containers.get(&container.name).copied().unwrap_or_default();
        let under_both = given.cores.intersection(topology.cores_of(given.devices));
        let hardware = given.hardware(topology);
        let shared = under_both.union(hardware.intersection(running));
        if !shared.is_empty() {
            return Err(Ignore::Shared { container: container.name.clone(), cores: shared });
        }
        if container.role != Role::Init {
            running = running.union(hardware);
        }
    }
    Ok(())
}

/// The ids of AWS' keys, container by container in the order in which kubelet starts them.
fn deal(
    request: &PodRequest,
    resource: Option<Resource>,
    ids: &BTreeSet<u8>,
    topology: &Topology,
) -> Result<BTreeMap<String, ContainerAllocation>, Ignore> {
    let resource = match (resource, request.asks(Resource::Device), request.asks(Resource::Core)) {
        (Some(resource), _, _) => resource,
        (None, true, false) => Resource::Device,
        (None, false, true) => Resource::Core,
        (None, _, _) => return Err(Ignore::WhichResource),
    };
    let (given, asked) = (ids.len() as u32, request.total(resource));
    if given != asked {
        return Err(Ignore::Total { noun: resource.noun(), given, asked });
    }
    let all: CoreSet = ids.iter().copied().collect();
    if resource == Resource::Device {
        in_range(resource, &all.difference(CoreSet::run(0, topology.devices())).to_string(), topology)?;
    }
    let mut rest = ids.clone();
    let mut containers = BTreeMap::new();
    for container in &request.containers {
        let taken: BTreeSet<u8> = rest.iter().copied().take(container.count(resource) as usize).collect();
        if container.role != Role::Init {
            rest.retain(|id| !taken.contains(id));
        }
        let mut given = ContainerAllocation::default();
        match resource {
            Resource::Device => given.devices = taken.into_iter().collect(),
            Resource::Core => given.cores = taken.into_iter().collect(),
        }
        containers.insert(container.name.clone(), given);
    }
    containers.retain(|_, given| *given != ContainerAllocation::default());
    Ok(containers)
}
