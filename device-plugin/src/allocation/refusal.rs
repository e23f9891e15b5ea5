//! Why kubelet's question is answered with an error: the type, and the texts that users read in a failed pod's status.
//! Made by `engine`.

use neuron_core::ids::CoreSet;
use neuron_core::placement;
use neuron_core::topology::Topology;
use runtime::reached;

use crate::handover::processes::OpenDevice;
use crate::ledger::answer::Asked;
use crate::ledger::holders::Holder;
use crate::resource::{UnknownId, ids_of};

/// Why kubelet's question is answered with an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationRefusal {
    /// No device is known yet.
    #[error("no Neuron device is advertised yet; see the plugin's log or /healthz for the reason")]
    NotReady,
    /// An id of another node, resource or time.
    #[error(transparent)]
    Unknown(#[from] UnknownId),
    /// A device that must not be used.
    #[error("{id} is unhealthy: {why}; it can be used again once that is over")]
    Unhealthy {
        /// The id, or the ids, of the device.
        id: String,
        /// Its fault, as the node report says it.
        why: String,
    },
    /// Ids that are no candidate set.
    #[error("{ids} of {resource} cannot be given: {why}{doubt}")]
    NotAllowed {
        /// kubelet's ids, such as `neuron2,neuron5`.
        ids: String,
        /// The resource's full name, such as `aws.amazon.com/neuron`.
        resource: &'static str,
        /// What the instance type allows.
        why: String,
        /// What could not be confirmed; empty if everything was.
        doubt: String,
    },
    /// Ids that another pod holds, under this name or the other.
    #[error(
        "{ids} of {resource} cannot be given: {holders}; they are free again when that pod has ended{doubt}"
    )]
    Held {
        /// Those of kubelet's ids that are held, comma separated.
        ids: String,
        /// The resource's full name, such as `aws.amazon.com/neuron`.
        resource: &'static str,
        /// Who holds which of them.
        holders: String,
        /// What could not be confirmed; empty if everything was.
        doubt: String,
    },
    /// Ids of devices that a process of a gone pod has open.
    #[error("{ids} of {resource} cannot be given: {process}; they can be given once that process has ended")]
    StillOpen {
        /// Those of kubelet's ids that the gone pod had, comma separated.
        ids: String,
        /// The resource's full name, such as `aws.amazon.com/neuron`.
        resource: &'static str,
        /// Which process of which pod has which device open.
        process: OpenDevice,
    },
}

impl AllocationRefusal {
    /// Counts it as a branch.
    pub(super) fn count(&self) {
        match self {
            AllocationRefusal::NotReady => reached("plugin: refused, not ready"),
            AllocationRefusal::Unknown(_) => reached("plugin: refused, unknown id"),
            AllocationRefusal::Unhealthy { .. } => reached("plugin: refused, unhealthy"),
            AllocationRefusal::NotAllowed { .. } => reached("plugin: refused, not allowed"),
            AllocationRefusal::Held { .. } => reached("plugin: refused, held"),
            AllocationRefusal::StillOpen { .. } => reached("plugin: refused, still open"),
        }
    }

    /// What metrics call it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            AllocationRefusal::NotReady => "not_ready",
            AllocationRefusal::Unknown(_) => "unknown_id",
            AllocationRefusal::Unhealthy { .. } => "unhealthy",
            AllocationRefusal::NotAllowed { .. } => "not_allowed",
            AllocationRefusal::Held { .. } => "held",
            AllocationRefusal::StillOpen { .. } => "still_open",
        }
    }

    pub(super) fn not_allowed(topology: &Topology, asked: &Asked, doubt: String) -> AllocationRefusal {
        let Asked { resource: unit, cores, count, .. } = *asked;
        let (noun, instance_type) = (unit.noun(), topology.instance_type());
        let why = if topology.supports(unit, count) {
            format!(
                "they are not one of the linked sets of {count} {noun}s that {instance_type} allows; placed by the \
                 scheduler extender, the pod waits until such a set is free"
            )
        } else {
            let (instance_type, resource, requested) = (instance_type.to_owned(), unit, count);
            placement::Refusal::UnsupportedCount { instance_type, resource, requested }.to_string()
        };
        AllocationRefusal::NotAllowed {
            ids: ids_of(topology, unit, cores).join(","),
            resource: asked.name,
            why,
            doubt,
        }
    }

    pub(super) fn held(
        topology: &Topology,
        asked: &Asked,
        holders: &[Holder],
        doubt: String,
    ) -> AllocationRefusal {
        let unit = asked.resource;
        let ids = |cores| ids_of(topology, unit, cores).join(",");
        let all = holders.iter().fold(CoreSet::EMPTY, |all, holder| all.union(holder.cores));
        let each = holders.iter().map(|holder| format!("{} holds {}", holder.who, ids(holder.cores)));
        AllocationRefusal::Held {
            ids: ids(all),
            resource: asked.name,
            holders: each.collect::<Vec<_>>().join(", "),
            doubt,
        }
    }
}
