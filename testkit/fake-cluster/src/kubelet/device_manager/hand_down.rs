//! The hand-down: ids that an init container leaves to the containers after it (kubelet's `devicesToReuse`). Used by
//! `pods::admission`.

use std::collections::BTreeMap;

use super::assignments::Assignments;
use super::plugins::Ids;

/// The ids that the next container of a pod may take over, by resource.
#[derive(Debug, Default)]
pub(crate) struct HandDown(BTreeMap<String, Ids>);

impl HandDown {
    /// The ids of `resource` that may be taken over.
    pub(super) fn of(&self, resource: &str) -> Ids {
        self.0.get(resource).cloned().unwrap_or_default()
    }

    /// Adds the ids of an init container that ends.
    pub(crate) fn add(&mut self, assignments: &Assignments, pod_uid: &str, container: &str) {
        for (resource, ids) in assignments.container_ids(pod_uid, container) {
            self.0.entry(resource).or_default().extend(ids);
        }
    }

    /// Removes the ids of a container that keeps them: a sidecar or an app container.
    pub(crate) fn remove(&mut self, assignments: &Assignments, pod_uid: &str, container: &str) {
        for (resource, ids) in assignments.container_ids(pod_uid, container) {
            self.0.entry(resource).or_default().retain(|id| !ids.contains(id));
        }
    }
}
