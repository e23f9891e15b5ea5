//! Ids one pod hands down from container to container (kubelet's `devicesToReuse`). Used by `admission`.

use std::collections::{BTreeMap, BTreeSet};

use super::devices::Books;

/// What the next container of a pod may take over, by resource.
#[derive(Debug, Default)]
pub(crate) struct Reusable(BTreeMap<String, BTreeSet<String>>);

impl Reusable {
    /// The ids of `resource` that may be taken over.
    pub(crate) fn of(&self, resource: &str) -> BTreeSet<String> {
        self.0.get(resource).cloned().unwrap_or_default()
    }

    /// An init container that ends leaves its ids to those after it.
    pub(crate) fn join(&mut self, books: &Books, pod_uid: &str, container: &str) {
        for (resource, ids) in books.container_ids(pod_uid, container) {
            self.0.entry(resource).or_default().extend(ids);
        }
    }

    /// A sidecar or an app container keeps what it took.
    pub(crate) fn leave(&mut self, books: &Books, pod_uid: &str, container: &str) {
        for (resource, ids) in books.container_ids(pod_uid, container) {
            self.0.entry(resource).or_default().retain(|id| !ids.contains(id));
        }
    }
}
