//! The hand-down: ids that an init container leaves to the containers after it (kubelet's `devicesToReuse`). Used by `allocate`.

use std::collections::BTreeMap;

use super::assignments::Assignments;
use super::plugins::Ids;

/// What one pod's init containers hand down: the pod of the latest allocation.
#[derive(Debug, Default)]
pub(crate) struct HandDown {
    pod_uid: String,
    /// By resource.
    ids: BTreeMap<String, Ids>,
}

impl HandDown {
    /// Forgets what other pods than this one handed down.
    pub(super) fn begin(&mut self, pod_uid: &str) {
        if self.pod_uid != pod_uid {
            *self = HandDown { pod_uid: pod_uid.to_owned(), ids: BTreeMap::new() };
        }
    }

    /// The ids of `resource` that may be taken over.
    pub(super) fn of(&self, resource: &str) -> Ids {
        self.ids.get(resource).cloned().unwrap_or_default()
    }

    /// Adds the ids of an init container that ends.
    pub(super) fn add(&mut self, assignments: &Assignments, container: &str) {
        for (resource, ids) in assignments.container_ids(&self.pod_uid, container) {
            self.ids.entry(resource).or_default().extend(ids);
        }
    }

    /// Removes the ids of a container that keeps them: a sidecar or an app container.
    pub(super) fn remove(&mut self, assignments: &Assignments, container: &str) {
        for (resource, ids) in assignments.container_ids(&self.pod_uid, container) {
            self.ids.entry(resource).or_default().retain(|id| !ids.contains(id));
        }
    }
}
