//! What plugins list and what containers have, together: the state behind the device manager's one lock.

use k8s_openapi::api::core::v1::{ResourceHealth, ResourceStatus};
use kubelet_api::deviceplugin::v1beta1::Device;

use super::assignments::{Assignment, Assignments};
use super::health::LastHealth;
use super::plugins::{Ids, Plugins};

/// The device manager's state. One lock holds all parts, because an id is available only if plugins and assignments agree.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    pub(crate) plugins: Plugins,
    pub(crate) assignments: Assignments,
    pub(crate) health: LastHealth,
}

impl Devices {
    /// Healthy ids of the resource that are not in use.
    pub(super) fn available(&self, resource: &str) -> Ids {
        let in_use = self.assignments.in_use(resource);
        let healthy = self.plugins.healthy(resource).into_iter().flatten();
        healthy.filter(|id| !in_use.is_some_and(|in_use| in_use.contains(*id))).cloned().collect()
    }

    /// Takes over a plugin's list.
    pub(super) fn list(&mut self, resource: &str, devices: Vec<Device>) {
        self.health.listed(resource, &devices);
        self.plugins.list(resource, devices);
    }

    /// A container's ids and their health, as its status has them (kubelet's `UpdateAllocatedResourcesStatus`). They are
    /// sorted, though kubelet's order is random: a draw for each status would make the kubelet's choices depend on how
    /// often one is written.
    pub(crate) fn resource_status(&self, pod_uid: &str, container: &str) -> Vec<ResourceStatus> {
        let health = |resource: &str, id: &String| {
            let health = if self.health.is_healthy(resource, id) { "Healthy" } else { "Unhealthy" };
            ResourceHealth { resource_id: id.clone(), health: Some(health.to_owned()) }
        };
        let of_resource = |given: &Assignment| ResourceStatus {
            name: given.resource.clone(),
            resources: Some(given.ids.iter().map(|id| health(&given.resource, id)).collect()),
        };
        let mut status: Vec<ResourceStatus> =
            self.assignments.of_container(pod_uid, container).map(of_resource).collect();
        status.sort_by(|one, other| one.name.cmp(&other.name));
        status
    }

    /// Whether the device manager allocates the resource: a plugin listed it, or ids of it are in use.
    pub(super) fn is_allocated_here(&self, resource: &str) -> bool {
        self.plugins.knows(resource) || self.assignments.in_use(resource).is_some()
    }
}
