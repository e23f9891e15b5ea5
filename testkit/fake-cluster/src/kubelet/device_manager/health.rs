//! The health of ids as the plugins last listed them, for the status of pods. Written by `devices`, read by
//! `pods::worker`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubelet_api::deviceplugin::v1beta1::{Device, HEALTHY};
use tokio::sync::Notify;

use super::plugins::Ids;

/// Which ids each resource's last list had as unhealthy. Unlike the devices that count for the Node, it is changed by no
/// plugin's end and never forgotten (kubelet's `allDevices`).
#[derive(Debug, Default)]
pub(crate) struct LastHealth {
    unhealthy: BTreeMap<String, Ids>,
    lists: Arc<Notify>,
}

impl LastHealth {
    /// Takes over a plugin's list.
    pub(super) fn listed(&mut self, resource: &str, devices: &[Device]) {
        let unhealthy = devices.iter().filter(|device| device.health != HEALTHY);
        self.unhealthy.insert(resource.to_owned(), unhealthy.map(|device| device.id.clone()).collect());
        self.lists.notify_waiters();
    }

    /// An id that the last list did not have is healthy.
    pub(super) fn is_healthy(&self, resource: &str, id: &str) -> bool {
        !self.unhealthy.get(resource).is_some_and(|unhealthy| unhealthy.contains(id))
    }

    /// Notifies all who wait, in the order in which they came, of every list.
    pub(crate) fn lists(&self) -> Arc<Notify> {
        self.lists.clone()
    }
}
