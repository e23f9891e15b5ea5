//! The registered plugins and the devices they list, by resource. Written by `endpoint`, read by everything that counts
//! devices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::{Device, HEALTHY};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// How long the Node's capacity of a resource outlives its plugin (kubelet's `endpointStopGracePeriod`).
pub const STOP_GRACE: Duration = Duration::from_secs(5 * 60);

/// Device ids of one resource.
pub(crate) type Ids = BTreeSet<String>;

/// A registered plugin; without a client it is only remembered from before a restart.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    pub(crate) client: Option<DevicePluginClient<Channel>>,
    /// Where it is dialled; empty if it is only remembered.
    pub(crate) socket: PathBuf,
    /// Whether it answers GetPreferredAllocation.
    pub(crate) has_preference: bool,
    pub(crate) stopped_at: Option<Timestamp>,
}

/// The last list of a plugin.
#[derive(Debug, Default)]
struct Listed {
    all: Ids,
    healthy: Ids,
    unhealthy: Ids,
}

/// Counts of extended resources, for the Node's status.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) capacity: BTreeMap<String, i64>,
    pub(crate) allocatable: BTreeMap<String, i64>,
}

/// Every plugin of one kubelet, by resource.
#[derive(Debug, Default)]
pub(crate) struct Plugins {
    plugins: BTreeMap<String, Plugin>,
    /// Cancelled to drop the plugin that registered last; removed once that is done.
    drop_newest: BTreeMap<String, CancellationToken>,
    listed: BTreeMap<String, Listed>,
}

impl Plugins {
    /// The plugins of a checkpoint: their resources are known, they themselves are not.
    pub(super) fn restored(resources: Vec<String>, now: Timestamp) -> Self {
        let plugin =
            Plugin { client: None, socket: PathBuf::new(), has_preference: false, stopped_at: Some(now) };
        let mut restored = Self::default();
        for resource in resources {
            restored.plugins.insert(resource.clone(), plugin.clone());
            restored.listed.insert(resource, Listed::default());
        }
        restored
    }

    /// Makes the plugin the resource's: the newest registration wins, and the older plugin's stream stays open. The token
    /// is cancelled when the new one is dropped.
    pub(super) fn connected(
        &mut self,
        resource: &str,
        client: DevicePluginClient<Channel>,
        socket: &Path,
        has_preference: bool,
    ) -> CancellationToken {
        let plugin =
            Plugin { client: Some(client), socket: socket.to_owned(), has_preference, stopped_at: None };
        self.plugins.insert(resource.to_owned(), plugin);
        let dropped = CancellationToken::new();
        self.drop_newest.insert(resource.to_owned(), dropped.clone());
        dropped
    }

    /// Drops the newest plugin of a resource of which a stream has ended. Kubelet does not ask whose stream it was
    /// (`runClient` in kubelet's plugin/v1beta1/handler.go).
    pub(super) fn disconnected(&mut self, resource: &str, now: Timestamp) {
        let Some(newest) = self.drop_newest.remove(resource) else { return };
        newest.cancel();
        if let Some(plugin) = self.plugins.get_mut(resource) {
            plugin.stopped_at = Some(now);
            let listed = self.listed.entry(resource.to_owned()).or_default();
            listed.unhealthy.append(&mut listed.healthy);
        }
    }

    /// Replaces what is known of the resource by a plugin's list.
    pub(super) fn list(&mut self, resource: &str, devices: Vec<Device>) {
        let mut listed = Listed::default();
        for device in devices {
            let of_health =
                if device.health == HEALTHY { &mut listed.healthy } else { &mut listed.unhealthy };
            of_health.insert(device.id.clone());
            listed.all.insert(device.id);
        }
        self.listed.insert(resource.to_owned(), listed);
    }

    pub(super) fn plugin(&self, resource: &str) -> Option<Plugin> {
        self.plugins.get(resource).cloned()
    }

    /// Whether the resource was listed and is not forgotten.
    pub(super) fn knows(&self, resource: &str) -> bool {
        self.listed.contains_key(resource)
    }

    /// Whether the plugin's last list has the id, healthy or not.
    pub(super) fn lists(&self, resource: &str, id: &str) -> bool {
        self.listed.get(resource).is_some_and(|listed| listed.all.contains(id))
    }

    /// The healthy ids; `None` when the resource was never listed or is forgotten.
    pub(super) fn healthy(&self, resource: &str) -> Option<&Ids> {
        self.listed.get(resource).map(|listed| &listed.healthy)
    }

    /// Healthy ids by resource.
    pub(super) fn all_healthy(&self) -> impl Iterator<Item = (&String, &Ids)> {
        self.listed.iter().map(|(resource, listed)| (resource, &listed.healthy))
    }

    /// The resources that a checkpoint remembers.
    pub(super) fn resources(&self) -> Vec<String> {
        self.listed.keys().cloned().collect()
    }

    /// Counts for the Node's status. A resource whose plugin has been gone for [`STOP_GRACE`] is forgotten.
    pub(crate) fn totals(&mut self, now: Timestamp) -> Totals {
        let expired: Vec<String> =
            self.expiries().filter(|(_, at)| *at <= now).map(|(name, _)| name).collect();
        for resource in expired {
            self.plugins.remove(&resource);
            self.listed.remove(&resource);
        }
        let mut totals = Totals::default();
        for (resource, listed) in &self.listed {
            let healthy = count(&listed.healthy);
            totals.allocatable.insert(resource.clone(), healthy);
            totals.capacity.insert(resource.clone(), healthy + count(&listed.unhealthy));
        }
        totals
    }

    /// When the next resource is forgotten, if a plugin is gone.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries().map(|(_, at)| at).min()
    }

    fn expiries(&self) -> impl Iterator<Item = (String, Timestamp)> {
        self.plugins.iter().filter_map(|(resource, plugin)| {
            let expiry = plugin.stopped_at?.checked_add(STOP_GRACE).ok()?;
            Some((resource.clone(), expiry))
        })
    }
}

/// How many ids there are, as the Node's status counts them.
pub(super) fn count(ids: &Ids) -> i64 {
    i64::try_from(ids.len()).unwrap_or(i64::MAX)
}
