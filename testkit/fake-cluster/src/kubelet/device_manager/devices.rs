//! What plugins list and what containers have, together: the state behind the device manager's one lock.

use kubelet_api::deviceplugin::v1beta1::Device;

use super::assignments::Assignments;
use super::plugins::{Ids, Plugins};

/// The device manager's state. One lock holds both parts, because an id is available only if both agree.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    pub(crate) plugins: Plugins,
    pub(crate) assignments: Assignments,
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
        self.plugins.list(resource, devices);
    }

    /// Whether the device manager allocates the resource: a plugin listed it, or ids of it are in use.
    pub(super) fn is_allocated_here(&self, resource: &str) -> bool {
        self.plugins.knows(resource) || self.assignments.in_use(resource).is_some()
    }
}
