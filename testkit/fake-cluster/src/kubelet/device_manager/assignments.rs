//! Which ids each container has. Written by `allocate` and `pods`, read by `choose_ids`, `podresources` and `pods::worker`.

use std::collections::{BTreeMap, BTreeSet};

use kubelet_api::deviceplugin::v1beta1::{ContainerAllocateResponse, DeviceSpec};
use runtime::reached;

use super::plugins::{Ids, count};
use crate::kubelet::device_mount::DeviceMount;

/// One container's ids of one resource, as the checkpoint has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The pod's UID.
    pub pod_uid: String,
    /// The container's name, init containers included.
    pub container: String,
    /// The extended resource, such as `example.com/pair`.
    pub resource: String,
    /// The ids, as the plugin names them.
    pub ids: BTreeSet<String>,
    /// What the plugin answered to Allocate.
    pub(crate) answer: AllocateAnswer,
}

/// The part of an Allocate answer that a container is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AllocateAnswer {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) devices: Vec<DeviceMount>,
    pub(crate) annotations: BTreeMap<String, String>,
}

impl AllocateAnswer {
    /// What counts of a plugin's answer.
    pub(super) fn of(answer: &ContainerAllocateResponse) -> Self {
        let device = |device: &DeviceSpec| DeviceMount {
            host_path: device.host_path.clone(),
            container_path: device.container_path.clone(),
            permissions: device.permissions.clone(),
        };
        Self {
            env: answer.envs.clone(),
            devices: answer.devices.iter().map(device).collect(),
            annotations: answer.annotations.clone(),
        }
    }
}

/// Every assignment of one kubelet, and the ids in use: those assigned and those whose Allocate is open.
#[derive(Debug, Default)]
pub(crate) struct Assignments {
    assigned: Vec<Assignment>,
    in_use: BTreeMap<String, Ids>,
}

impl Assignments {
    /// The assignments of a checkpoint.
    pub(super) fn restored(assigned: Vec<Assignment>) -> Self {
        let mut restored = Self { assigned, in_use: BTreeMap::new() };
        restored.recount();
        restored
    }

    /// Every assignment, oldest first.
    pub(crate) fn all(&self) -> &[Assignment] {
        &self.assigned
    }

    pub(super) fn add(&mut self, assignment: Assignment) {
        self.assigned.push(assignment);
    }

    /// One container's assignments.
    pub(crate) fn of_container(&self, pod_uid: &str, container: &str) -> impl Iterator<Item = &Assignment> {
        self.assigned.iter().filter(move |given| given.pod_uid == pod_uid && given.container == container)
    }

    /// One container's ids by resource.
    pub(super) fn container_ids(&self, pod_uid: &str, container: &str) -> BTreeMap<String, Ids> {
        let assigned = self.of_container(pod_uid, container);
        assigned.map(|given| (given.resource.clone(), given.ids.clone())).collect()
    }

    pub(crate) fn has_pod(&self, pod_uid: &str) -> bool {
        self.assigned.iter().any(|given| given.pod_uid == pod_uid)
    }

    /// The ids of the resource that are in use; `None` if it was never used.
    pub(super) fn in_use(&self, resource: &str) -> Option<&Ids> {
        self.in_use.get(resource)
    }

    /// How many ids of each resource are in use.
    pub(crate) fn counts_in_use(&self) -> BTreeMap<String, i64> {
        self.in_use.iter().map(|(resource, ids)| (resource.clone(), count(ids))).collect()
    }

    /// Marks an id as in use whose Allocate is still to come.
    pub(super) fn mark_in_use(&mut self, resource: &str, id: &str) {
        self.in_use.entry(resource.to_owned()).or_default().insert(id.to_owned());
    }

    /// Makes exactly the assigned ids the ones in use, which forgets those whose Allocate is open.
    pub(super) fn recount(&mut self) {
        self.in_use.clear();
        for given in &self.assigned {
            let in_use = self.in_use.entry(given.resource.clone()).or_default();
            in_use.extend(given.ids.iter().cloned());
        }
    }

    /// Frees what pods have that are not `active`, and recounts only if there is any (kubelet's `UpdateAllocatedDevices`).
    /// Whether there was any.
    pub(crate) fn free_inactive(&mut self, active: &BTreeSet<String>) -> bool {
        let (before, open_allocate) = (self.assigned.len(), self.has_open_allocate());
        self.assigned.retain(|given| active.contains(&given.pod_uid));
        let freed = self.assigned.len() < before;
        if freed {
            if open_allocate {
                reached("cluster: kubelet forgot the ids of an open Allocate");
            }
            self.recount();
        }
        freed
    }

    /// Whether ids are in use that nobody was given yet.
    fn has_open_allocate(&self) -> bool {
        self.in_use.iter().any(|(resource, ids)| {
            let given = self.assigned.iter().filter(|given| given.resource == *resource);
            let assigned: BTreeSet<&String> = given.flat_map(|given| &given.ids).collect();
            ids.iter().any(|id| !assigned.contains(id))
        })
    }
}
