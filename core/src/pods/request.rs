//! What a pod's containers request, by kubelet's own rules. Read by [`crate::placement`], [`crate::holders`], the
//! extender and the device plugin.

use std::sync::Arc;

use crate::claim::Claim;
use crate::names::{NEURON, NEURONCORE, NEURONDEVICE, Resource};
use crate::pod::{Container, PodSpec};
use crate::quantity::{Quantity, QuantityError};

/// How kubelet treats a container and its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// An ordinary init container: it ends before the next one starts, and its ids are handed down to later
    /// containers.
    Init,
    /// An init container with `restartPolicy: Always`: runs beside the others and keeps its ids.
    Sidecar,
    /// An app container.
    App,
}

/// What one container requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerRequest {
    /// The container's name.
    pub name: Arc<str>,
    /// How kubelet treats it.
    pub role: Role,
    /// Number of devices, at most [`crate::quantity::MAX_COUNT`].
    pub devices: u32,
    /// Number of logical cores, at most [`crate::quantity::MAX_COUNT`].
    pub cores: u32,
}

/// What a pod requests: only the containers that request Neuron hardware, in the order in which kubelet starts them:
/// init containers and sidecars before app containers, each in spec order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRequest {
    /// The containers, each with at least one device or core.
    pub containers: Vec<ContainerRequest>,
}

/// Why a pod's request cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// An amount is no whole number of devices or cores.
    #[error("Container {container} asks for {resource}: {problem}")]
    Amount {
        /// The container's name.
        container: String,
        /// The resource's full name.
        resource: &'static str,
        /// What is wrong with the amount.
        problem: QuantityError,
    },
    /// A container requests devices under both of their names.
    #[error(
        "Container {container} asks for both {NEURON} and {NEURONDEVICE}, two names of the same devices; keep {NEURON}"
    )]
    BothNames {
        /// The container's name.
        container: String,
    },
}

impl ContainerRequest {
    /// How many of `resource` the container requests.
    pub fn count(&self, resource: Resource) -> u32 {
        match resource {
            Resource::Device => self.devices,
            Resource::Core => self.cores,
        }
    }
}

impl PodRequest {
    /// Whether the other one requests the same in the same roles, whatever the containers are called.
    pub fn is_alike(&self, other: &PodRequest) -> bool {
        let amounts = |requested: &ContainerRequest| (requested.role, requested.devices, requested.cores);
        self.containers.iter().map(amounts).eq(other.containers.iter().map(amounts))
    }

    /// Reads the containers' limits, which decide for extended resources; zero is no request.
    ///
    /// # Errors
    /// [`RequestError`] if an amount is no count, or devices are requested under both of their names.
    pub fn of(spec: &PodSpec) -> Result<PodRequest, RequestError> {
        let init = spec.init_containers.iter().map(|container| (container, init_role(container)));
        let app = spec.containers.iter().map(|container| (container, Role::App));
        let mut containers = Vec::new();
        for (container, role) in init.chain(app) {
            let limits = &container.resources.limits;
            let read = |resource, quantity: &Option<Quantity>| match quantity {
                None => Ok(0),
                Some(quantity) => quantity.count().map_err(|problem| RequestError::Amount {
                    container: container.name.clone(),
                    resource,
                    problem,
                }),
            };
            let new_name = read(NEURON, &limits.neuron)?;
            let old_name = read(NEURONDEVICE, &limits.neurondevice)?;
            let cores = read(NEURONCORE, &limits.neuroncore)?;
            if new_name > 0 && old_name > 0 {
                return Err(RequestError::BothNames { container: container.name.clone() });
            }
            let devices = new_name.max(old_name);
            if devices > 0 || cores > 0 {
                containers.push(ContainerRequest {
                    name: container.name.as_str().into(),
                    role,
                    devices,
                    cores,
                });
            }
        }
        containers.shrink_to_fit();
        Ok(PodRequest { containers })
    }

    /// The request without what a ResourceClaim gives: kubelet asks no device plugin for that.
    pub fn without(mut self, claim: Option<&Claim>) -> PodRequest {
        let Some(claim) = claim else { return self };
        for container in &mut self.containers {
            if claim.gives(&container.name, Resource::Device) {
                container.devices = 0;
            }
            if claim.gives(&container.name, Resource::Core) {
                container.cores = 0;
            }
        }
        self.containers.retain(|container| container.devices > 0 || container.cores > 0);
        self
    }

    /// Whether the pod requests no Neuron hardware.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Whether any container requests `resource`.
    pub fn requests(&self, resource: Resource) -> bool {
        self.containers.iter().any(|container| container.count(resource) > 0)
    }

    /// How many of `resource` the pod needs, as kube-scheduler and kubelet count: apps and sidecars
    /// together, or an init container beside the sidecars started before it, whichever is more.
    pub fn total(&self, resource: Resource) -> u32 {
        let mut running = 0u32;
        let mut most = 0u32;
        for container in &self.containers {
            let beside = running.saturating_add(container.count(resource));
            most = most.max(beside);
            if container.role != Role::Init {
                running = beside;
            }
        }
        most
    }
}

fn init_role(container: &Container) -> Role {
    match container.restart_policy.as_deref() {
        Some("Always") => Role::Sidecar,
        _ => Role::Init,
    }
}
