//! The registered plugins and the devices they list, by resource. Written by `endpoint`, read by everything that counts
//! devices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::{Device, HEALTHY};
use runtime::reached;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

/// How long the Node's capacity of a resource outlives its plugin (kubelet's `endpointStopGracePeriod`).
pub const STOP_GRACE: Duration = Duration::from_secs(5 * 60);

/// Device ids of one resource.
pub(crate) type Ids = BTreeSet<String>;

/// A registered plugin; without a client it is only remembered from before a restart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plugin {
    pub(crate) client: Option<DevicePluginClient<Channel>>,
    /// Where it is dialled; empty if it is only remembered.
    pub(crate) socket: PathBuf,
    /// Whether it answers GetPreferredAllocation.
    pub(crate) has_preference: bool,
    pub(crate) stopped_at: Option<Timestamp>,
    /// Whether kubelet will not notice the end of its stream.
    unwatched: bool,
    /// Cancelled when kubelet drops the plugin although its own stream is open.
    dropped: CancellationToken,
}

/// A plugin was refused, because another is connected on the path of its socket.
#[derive(Debug)]
pub(super) struct AlreadyConnected;

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

/// Counts, and the resources that were forgotten with them.
pub(crate) struct Counted {
    pub(crate) totals: Totals,
    pub(crate) forgotten: Vec<String>,
}

/// Every plugin of one kubelet, by resource.
#[derive(Debug, Default)]
pub(crate) struct Plugins {
    /// Whether plugins are kept by the path of their sockets; else a resource has one, the newest.
    pub(crate) by_path: bool,
    /// In the order of registration; the last is asked. One that has stopped stands alone.
    plugins: BTreeMap<String, Vec<Plugin>>,
    listed: BTreeMap<String, Listed>,
}

impl Plugins {
    /// The plugins of a checkpoint: their resources are known, they themselves are not.
    pub(super) fn restored(resources: impl Iterator<Item = String>, now: Timestamp) -> Self {
        let plugin = Plugin { stopped_at: Some(now), ..Plugin::default() };
        let mut restored = Self::default();
        for resource in resources {
            restored.plugins.insert(resource.clone(), vec![plugin.clone()]);
            restored.listed.insert(resource, Listed::default());
        }
        restored
    }

    /// Makes the plugin the one that is asked for the resource; the streams of older ones stay open. The token is cancelled
    /// when the new one is dropped.
    pub(super) fn connected(
        &mut self,
        resource: &str,
        client: DevicePluginClient<Channel>,
        socket: &Path,
        has_preference: bool,
    ) -> Result<CancellationToken, AlreadyConnected> {
        let (client, socket) = (Some(client), socket.to_owned());
        let plugin = Plugin { client, socket, has_preference, ..Plugin::default() };
        let dropped = plugin.dropped.clone();
        let plugins = self.plugins.entry(resource.to_owned()).or_default();
        if self.by_path {
            plugins.retain(|older| older.stopped_at.is_none());
            if plugins.iter().any(|older| older.socket == plugin.socket) {
                reached("cluster: a plugin was refused, its path is held");
                return Err(AlreadyConnected);
            }
        } else {
            plugins.clear();
        }
        plugins.push(plugin);
        Ok(dropped)
    }

    /// A registration on the path has failed. Kubelet's clean-up forgets whom it watched there, which is the plugin before
    /// (`connectClient` in kubelet's plugin/v1beta1/handler.go).
    pub(super) fn not_connected(&mut self, resource: &str, socket: &Path) {
        if self.by_path {
            let plugins = self.plugins.get_mut(resource).into_iter().flatten();
            plugins.filter(|plugin| plugin.socket == socket).for_each(|plugin| {
                reached("cluster: kubelet lost sight of a plugin");
                plugin.unwatched = true;
            });
        }
    }

    /// The stream of the plugin on `socket` has ended.
    pub(super) fn disconnected(&mut self, resource: &str, socket: &Path, now: Timestamp) {
        let Some(plugins) = self.plugins.get_mut(resource) else { return };
        // Without paths the newest is dropped: kubelet does not ask whose stream it was (`runClient` in handler.go).
        let whose = |plugin: &Plugin| !self.by_path || plugin.socket == socket;
        let Some(place) = plugins.iter().position(whose) else { return };
        if plugins[place].unwatched {
            reached("cluster: the end of a plugin was not noticed");
            return;
        }
        if plugins[place].stopped_at.is_some() {
            return;
        }
        if plugins[place].socket != socket {
            reached("cluster: the end of an older plugin dropped the newest");
        }
        let mut ended = plugins.remove(place);
        ended.dropped.cancel();
        if plugins.is_empty() {
            reached("cluster: a plugin's list was dropped with it");
            ended.stopped_at = Some(now);
            plugins.push(ended);
            let listed = self.listed.entry(resource.to_owned()).or_default();
            listed.unhealthy.append(&mut listed.healthy);
        } else {
            reached("cluster: a plugin ended and another remained");
        }
    }

    /// Drops every plugin that is connected: their streams end. Whether there was any.
    pub(crate) fn drop_all(&mut self, now: Timestamp) -> bool {
        let connected = self.plugins.iter().flat_map(|(resource, plugins)| {
            let connected = plugins.iter().filter(|plugin| plugin.stopped_at.is_none());
            connected.map(|plugin| (resource.clone(), plugin.socket.clone()))
        });
        let connected: Vec<(String, PathBuf)> = connected.collect();
        for (resource, socket) in &connected {
            self.disconnected(resource, socket, now);
        }
        !connected.is_empty()
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
        self.plugins.get(resource)?.last().cloned()
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

    /// Counts for the Node's status. A resource whose plugin has been gone for [`STOP_GRACE`] is forgotten.
    pub(crate) fn totals(&mut self, now: Timestamp) -> Counted {
        let forgotten: Vec<String> =
            self.expiries().filter(|(_, at)| *at <= now).map(|(name, _)| name).collect();
        for resource in &forgotten {
            reached("cluster: a resource was forgotten, its plugin was gone too long");
            self.plugins.remove(resource);
            self.listed.remove(resource);
        }
        let mut totals = Totals::default();
        for (resource, listed) in &self.listed {
            let healthy = count(&listed.healthy);
            totals.allocatable.insert(resource.clone(), healthy);
            totals.capacity.insert(resource.clone(), healthy + count(&listed.unhealthy));
        }
        Counted { totals, forgotten }
    }

    /// When the next resource is forgotten, if a plugin is gone.
    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries().map(|(_, at)| at).min()
    }

    fn expiries(&self) -> impl Iterator<Item = (String, Timestamp)> {
        self.plugins.iter().filter_map(|(resource, plugins)| {
            let expiry = plugins.last()?.stopped_at?.checked_add(STOP_GRACE).ok()?;
            Some((resource.clone(), expiry))
        })
    }
}

/// How many ids there are, as the Node's status counts them.
pub(super) fn count(ids: &Ids) -> i64 {
    i64::try_from(ids.len()).unwrap_or(i64::MAX)
}
