//! Whether one pod's record counts, without regard to other pods. Called by [`super::settle`], the extender and the
//! device plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use crate::ids::CoreSet;
use crate::names::Resource;
use crate::pod::BoundPod;
use crate::record::{Allocation, ContainerAllocation, Containers, RecordError, Recorded};
use crate::request::{ContainerRequest, PodRequest, RequestError, Role};
use crate::topology::Topology;

/// Why a record does not count. Each text ends a sentence and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreReason {
    /// The annotation cannot be read.
    #[error("{0}; recreate the pod")]
    Malformed(#[from] RecordError),
    /// The pod's request cannot be read.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The pod requests nothing.
    #[error("the pod asks for no Neuron device or core; remove the annotation")]
    NothingRequested,
    /// The record is for another node.
    #[error("it names node {record}, the pod runs on {node}; recreate the pod")]
    Node {
        /// The node that the record names.
        record: String,
        /// The pod's node.
        node: String,
    },
    /// The record is for another LNC.
    #[error("its core ids are for LNC {record}, the node runs with LNC {node}; recreate the pod")]
    Lnc {
        /// The LNC in the record.
        record: u8,
        /// The node's LNC.
        node: u8,
    },
    /// The record gives a container more or fewer than it requests.
    #[error(
        "it gives container {container} {given} {noun}(s), the container asks for {requested}; recreate the pod"
    )]
    Count {
        /// The container's name in the pod's spec.
        container: String,
        /// `device` or `core`.
        noun: &'static str,
        /// How many the record gives.
        given: u32,
        /// How many the container requests.
        requested: u32,
    },
    /// AWS' keys have another number of ids than the pod requests.
    #[error("it names {given} {noun}(s), the pod asks for {requested}; recreate the pod")]
    Total {
        /// `device` or `core`.
        noun: &'static str,
        /// How many ids there are.
        given: u32,
        /// How many the pod requests.
        requested: u32,
    },
    /// AWS' keys do not say whether the ids are devices or cores, and the pod requests both.
    #[error(
        "it does not say whether its ids are devices or cores, and the pod asks for both; recreate the pod"
    )]
    WhichResource,
    /// The record names ids that the node does not have.
    #[error("it names {noun} {ids}, the node has {noun} 0 to {last}; recreate the pod")]
    OutOfRange {
        /// `device` or `core`.
        noun: &'static str,
        /// The ids that are too large, comma separated.
        ids: String,
        /// The largest id of the node.
        last: u8,
    },
    /// Two containers that run at the same time, or one container under both names, have the same hardware.
    #[error(
        "it gives container {container} core(s) {cores}, which at the same time it gives out under the other name or to another container; recreate the pod"
    )]
    Shared {
        /// The container's name in the pod's spec.
        container: String,
        /// The logical cores that it shares.
        cores: CoreSet,
    },
    /// A pod whose record comes first holds the same cores.
    #[error("core(s) {cores} are held by pod {holder}, which comes first; recreate this pod")]
    Overlap {
        /// The cores that both records name.
        cores: CoreSet,
        /// That pod as `namespace/name`.
        holder: String,
    },
    /// The node's report says that kubelet gave the pod other cores.
    #[error("it says core(s) {recorded}, kubelet gave the pod core(s) {given}, which is what counts")]
    Contradicted {
        /// The cores by the record.
        recorded: CoreSet,
        /// The cores by the report.
        given: CoreSet,
    },
}

/// The record of a pod that is bound to `node`, if it counts without regard to other pods; `None` if the pod has no
/// record. The ids of AWS' keys, which name no containers, are dealt out in the order in which kubelet starts the
/// containers.
///
/// # Errors
/// [`IgnoreReason`] says why the record does not count.
pub fn record_counts(
    pod: &BoundPod,
    node: &str,
    topology: &Topology,
) -> Result<Option<Arc<Allocation>>, IgnoreReason> {
    let request = pod.request.as_ref().map_err(|error| (**error).clone())?;
    let recorded = pod.record.as_ref().map_err(|error| (**error).clone())?;
    let Some(recorded) = recorded else { return Ok(None) };
    if request.is_empty() {
        return Err(IgnoreReason::NothingRequested);
    }
    let allocation = match recorded {
        Recorded::Ours(allocation) => Arc::clone(allocation),
        Recorded::Aws { resource, ids } => {
            let containers = deal(request, *resource, ids, topology)?;
            Arc::new(Allocation { node: node.into(), lnc: topology.lnc(), containers })
        }
    };
    if *allocation.node != *node {
        return Err(IgnoreReason::Node { record: (*allocation.node).to_owned(), node: node.to_owned() });
    }
    if allocation.lnc != topology.lnc() {
        return Err(IgnoreReason::Lnc { record: allocation.lnc, node: topology.lnc() });
    }
    check_counts(request, &allocation)?;
    let devices = allocation.union_devices().difference(topology.all_devices());
    check_range(Resource::Device, devices, topology)?;
    let cores = allocation.union_cores().difference(topology.all_cores());
    check_range(Resource::Core, cores, topology)?;
    check_sharing(request, &allocation, topology)?;
    Ok(Some(allocation))
}

fn check_counts(request: &PodRequest, allocation: &Allocation) -> Result<(), IgnoreReason> {
    // Nearly every record is right, and each is looked at again whenever a pod of its node changes.
    if gives_what_is_requested(request, allocation) {
        return Ok(());
    }
    let requested: BTreeMap<&str, &ContainerRequest> =
        request.containers.iter().map(|container| (&*container.name, container)).collect();
    let recorded = allocation.containers.keys().map(|name| &**name);
    let names: BTreeSet<&str> = requested.keys().copied().chain(recorded).collect();
    for name in names {
        let given = allocation.containers.get(name).copied().unwrap_or_default();
        let pairs = [(Resource::Device, given.devices.len()), (Resource::Core, given.cores.len())];
        for (resource, given) in pairs {
            let requested = requested.get(name).map_or(0, |container| container.count(resource));
            if given != requested {
                return Err(IgnoreReason::Count {
                    container: name.to_owned(),
                    noun: resource.noun(),
                    given,
                    requested,
                });
            }
        }
    }
    Ok(())
}

/// Whether the containers with devices or cores are those that request some, each with as many.
fn gives_what_is_requested(request: &PodRequest, allocation: &Allocation) -> bool {
    request.containers.len() == allocation.containers.len()
        && request.containers.iter().all(|container| {
            let given = allocation.containers.get(&container.name).copied().unwrap_or_default();
            (given.devices.len(), given.cores.len()) == (container.devices, container.cores)
        })
}

/// `beyond` is the set of ids that the node does not have.
fn check_range<Ids: Default + PartialEq + Display>(
    resource: Resource,
    beyond: Ids,
    topology: &Topology,
) -> Result<(), IgnoreReason> {
    // Before the text is made: nearly always there are none.
    if beyond == Ids::default() {
        return Ok(());
    }
    let last = match resource {
        Resource::Device => topology.devices(),
        Resource::Core => topology.cores(),
    };
    let (noun, ids) = (resource.noun(), beyond.to_string());
    Err(IgnoreReason::OutOfRange { noun, ids, last: last.saturating_sub(1) })
}

/// Containers that run at the same time share nothing. An init container ends before the next one starts, so its
/// hardware may be given again.
fn check_sharing(
    request: &PodRequest,
    allocation: &Allocation,
    topology: &Topology,
) -> Result<(), IgnoreReason> {
    let mut running = CoreSet::EMPTY;
    for container in &request.containers {
        let given = allocation.containers.get(&container.name).copied().unwrap_or_default();
        let under_both = given.cores.intersection(topology.cores_of(given.devices));
        let hardware = given.hardware(topology);
        let shared = under_both.union(hardware.intersection(running));
        if !shared.is_empty() {
            return Err(IgnoreReason::Shared { container: container.name.to_string(), cores: shared });
        }
        if container.role != Role::Init {
            running = running.union(hardware);
        }
    }
    Ok(())
}

/// Deals the ids of AWS' keys to the containers, in the order in which kubelet starts them.
fn deal(
    request: &PodRequest,
    resource: Option<Resource>,
    ids: &BTreeSet<u8>,
    topology: &Topology,
) -> Result<Containers, IgnoreReason> {
    let resource = match (resource, request.requests(Resource::Device), request.requests(Resource::Core)) {
        (Some(resource), _, _) => resource,
        (None, true, false) => Resource::Device,
        (None, false, true) => Resource::Core,
        (None, _, _) => return Err(IgnoreReason::WhichResource),
    };
    let (given, requested) = (ids.len() as u32, request.total(resource));
    if given != requested {
        return Err(IgnoreReason::Total { noun: resource.noun(), given, requested });
    }
    let all: CoreSet = ids.iter().copied().collect();
    if resource == Resource::Device {
        check_range(resource, all.difference(CoreSet::run(0, topology.devices())), topology)?;
    }
    let mut rest = ids.clone();
    let mut containers = Containers::default();
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
