//! What a pod gets from a ResourceClaim (DRA) instead of the device plugin, by `status.extendedResourceClaimStatus`. Left
//! out of what the pod requests in [`crate::pod::BoundPod`] and by the extender's filter.
//!
//! kube-scheduler writes that status just before it binds a pod to a node that does not advertise a resource which a
//! DeviceClass names, and nothing clears it. kubelet asks no device plugin for what it maps, on any node
//! (docs/reference/kubernetes.md §8). A pod's author has no right to `pods/status`; whoever has it can say that a pod
//! asks the plugin for nothing, but not that devices which its record gives it are free ([`Claim::beside`]).

use std::collections::BTreeSet;

use crate::names::{RESOURCE_NAMES, Resource};
use crate::pod::ExtendedResourceClaimStatus;
use crate::record::Recorded;

/// The part of a pod's Neuron request that a ResourceClaim meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The ResourceClaim's name, in the pod's namespace.
    pub name: String,
    /// Container names and resources' full names, at least one pair.
    claimed: BTreeSet<(String, &'static str)>,
}

impl Claim {
    /// Reads the part of a pod's status; `None` if no Neuron resource is claimed.
    pub fn of(status: &ExtendedResourceClaimStatus) -> Option<Claim> {
        let claimed = status.request_mappings.iter().filter_map(|mapping| {
            let resource = RESOURCE_NAMES.into_iter().find(|name| *name == mapping.resource_name)?;
            Some((mapping.container_name.clone(), resource))
        });
        Claim { name: status.resource_claim_name.clone(), claimed: claimed.collect() }.if_any()
    }

    /// What is left of a bound pod's claim beside its record. Record and binding are one write, and the record leaves out
    /// what was claimed until then: a status that claims what the record gives came later, and frees nothing.
    pub fn beside(mut self, recorded: &Recorded) -> Option<Claim> {
        match recorded {
            Recorded::Ours(allocation) => self.claimed.retain(|(container, name)| {
                let given = allocation.containers.get(container.as_str()).copied().unwrap_or_default();
                match Resource::named(name) {
                    Some(Resource::Device) => given.devices.is_empty(),
                    Some(Resource::Core) => given.cores.is_empty(),
                    None => true,
                }
            }),
            // AWS' keys name no containers: any of them may have the ids.
            Recorded::Aws { .. } => self.claimed.clear(),
        }
        self.if_any()
    }

    /// Whether the container gets the resource from the claim.
    pub fn gives(&self, container: &str, resource: Resource) -> bool {
        let is_claimed =
            |(of, name): &(String, &str)| of == container && Resource::named(name) == Some(resource);
        self.claimed.iter().any(is_claimed)
    }

    /// The full names of the claimed resources, sorted, each once.
    pub fn resources(&self) -> BTreeSet<&'static str> {
        self.claimed.iter().map(|(_, name)| *name).collect()
    }

    fn if_any(self) -> Option<Claim> {
        Some(self).filter(|claim| !claim.claimed.is_empty())
    }
}
