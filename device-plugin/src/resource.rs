//! The resources offered to kubelet, and what their ids mean: every set is kept as the logical cores it takes, so
//! that both names speak of the same hardware.

use neuron_core::ids::{CoreSet, DeviceSet, KubeletId};
use neuron_core::names::{NEURON, NEURONCORE, NEURONDEVICE, Resource};
use neuron_core::topology::Topology;

/// One resource and the socket it is served on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The extended resource's name.
    pub name: &'static str,
    /// The socket's file name in kubelet's plugin folder.
    pub socket: &'static str,
    /// What its ids count.
    pub resource: Resource,
}

/// What is offered; `legacy` adds the old name of devices.
pub fn offers(legacy: bool) -> Vec<Offer> {
    let mut offers = vec![
        Offer { name: NEURON, socket: "neuron-devplugin.sock", resource: Resource::Device },
        Offer { name: NEURONCORE, socket: "neuroncore-devplugin.sock", resource: Resource::Core },
    ];
    if legacy {
        let socket = "neurondevice-devplugin.sock";
        offers.push(Offer { name: NEURONDEVICE, socket, resource: Resource::Device });
    }
    offers
}

/// What the ids of a resource called `name` count; none for a resource that is not ours.
pub fn resource_of(name: &str) -> Option<Resource> {
    offers(true).into_iter().find(|offer| offer.name == name).map(|offer| offer.resource)
}

/// An id that this node never advertised for the resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{id:?} is not an id of {resource} on this node; it advertises {advertised}")]
pub struct UnknownId {
    id: String,
    resource: &'static str,
    advertised: String,
}

/// The logical cores that `ids` take.
///
/// # Errors
/// Names the first id that this node does not have under that resource.
pub fn hardware(topology: &Topology, resource: Resource, ids: &[String]) -> Result<CoreSet, UnknownId> {
    ids.iter().try_fold(CoreSet::EMPTY, |all, id| match (id.parse(), resource) {
        (Ok(KubeletId::Device(device)), Resource::Device) if device < topology.devices() => {
            Ok(all.union(topology.cores_of(DeviceSet::single(device))))
        }
        (Ok(KubeletId::Core(core)), Resource::Core) if core < topology.cores() => {
            Ok(all.union(CoreSet::single(core)))
        }
        _ => Err(UnknownId {
            id: id.clone(),
            resource: resource.name(),
            advertised: match ids_of(topology, resource, topology.all_cores()).as_slice() {
                [first, .., last] => format!("{first} to {last}"),
                all => all.concat(),
            },
        }),
    })
}

/// The ids of a resource that touch `cores`, ascending.
pub fn ids_of(topology: &Topology, resource: Resource, cores: CoreSet) -> Vec<String> {
    match resource {
        Resource::Device => {
            topology.devices_of(cores).iter().map(|id| KubeletId::Device(id).to_string()).collect()
        }
        Resource::Core => cores.iter().map(|id| KubeletId::Core(id).to_string()).collect(),
    }
}

/// How many of a resource `cores` are.
pub fn count_of(topology: &Topology, resource: Resource, cores: CoreSet) -> u32 {
    match resource {
        Resource::Device => topology.devices_of(cores).len(),
        Resource::Core => cores.len(),
    }
}
