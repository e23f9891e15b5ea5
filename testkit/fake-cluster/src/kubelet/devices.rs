//! The device manager's books: which plugin serves a resource, which ids it listed, who holds which.
//! Written by `endpoint` (lists), `allocate` (grants) and `pods` (ends); read by `status` and `podresources`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::{Device, HEALTHY};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::runtime::DeviceMount;

/// How long the capacity of a resource outlives its plugin (kubelet's `endpointStopGracePeriod`).
pub const STOP_GRACE: Duration = Duration::from_secs(5 * 60);

/// Ids of one resource.
pub(crate) type Ids = BTreeSet<String>;

/// One container's ids of one resource, as the checkpoint has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The pod's UID.
    pub pod_uid: String,
    /// The container's name, init containers included.
    pub container: String,
    /// The extended resource.
    pub resource: String,
    /// The ids, as the plugin names them.
    pub ids: BTreeSet<String>,
    /// What the plugin answered to Allocate.
    pub(crate) grant: Grant,
}

/// The part of an Allocate answer a container is started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) devices: Vec<DeviceMount>,
    pub(crate) annotations: BTreeMap<String, String>,
}

/// A registered plugin; without a client it is only remembered from before a restart.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    pub(crate) client: Option<DevicePluginClient<Channel>>,
    /// Where it is dialled; empty if it is only remembered.
    pub(crate) socket: PathBuf,
    pub(crate) offers_preference: bool,
    pub(crate) stopped_at: Option<Timestamp>,
}

/// What a plugin listed.
#[derive(Debug, Default)]
struct Listed {
    all: Ids,
    healthy: Ids,
    unhealthy: Ids,
}

/// Extended resources for the Node's status.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) capacity: BTreeMap<String, i64>,
    pub(crate) allocatable: BTreeMap<String, i64>,
}

/// The books of one kubelet.
#[derive(Debug, Default)]
pub(crate) struct Books {
    plugins: BTreeMap<String, Plugin>,
    /// Drops the plugin that registered last, stream and all, unless that was done.
    followed: BTreeMap<String, CancellationToken>,
    listed: BTreeMap<String, Listed>,
    in_use: BTreeMap<String, Ids>,
    holdings: Vec<Holding>,
}

impl Books {
    /// The books as a checkpoint left them: resources are known, their plugins are not.
    pub(crate) fn restored(holdings: Vec<Holding>, resources: Vec<String>, now: Timestamp) -> Self {
        let plugin =
            Plugin { client: None, socket: PathBuf::new(), offers_preference: false, stopped_at: Some(now) };
        let mut books = Self { holdings, ..Self::default() };
        for resource in resources {
            books.plugins.insert(resource.clone(), plugin.clone());
            books.listed.insert(resource, Listed::default());
        }
        books.recount();
        books
    }

    /// The newest registration of a resource wins; the older plugin's stream is not closed. The token tells when the new
    /// one is dropped.
    pub(crate) fn connected(
        &mut self,
        resource: &str,
        client: DevicePluginClient<Channel>,
        socket: &Path,
        preference: bool,
    ) -> CancellationToken {
        let plugin = Plugin {
            client: Some(client),
            socket: socket.to_owned(),
            offers_preference: preference,
            stopped_at: None,
        };
        self.plugins.insert(resource.to_owned(), plugin);
        let dropped = CancellationToken::new();
        self.followed.insert(resource.to_owned(), dropped.clone());
        dropped
    }

    /// A stream of the resource ended. Kubelet does not ask whose: the plugin registered now is dropped (`runClient` in
    /// kubelet's plugin/v1beta1/handler.go), once.
    pub(crate) fn disconnected(&mut self, resource: &str, now: Timestamp) {
        let Some(newest) = self.followed.remove(resource) else { return };
        newest.cancel();
        if let Some(plugin) = self.plugins.get_mut(resource) {
            plugin.stopped_at = Some(now);
            let listed = self.listed.entry(resource.to_owned()).or_default();
            listed.unhealthy.append(&mut listed.healthy);
        }
    }

    /// A plugin's list replaces what was known of the resource.
    pub(crate) fn list(&mut self, resource: &str, devices: Vec<Device>) {
        let mut listed = Listed::default();
        for device in devices {
            let of_health =
                if device.health == HEALTHY { &mut listed.healthy } else { &mut listed.unhealthy };
            of_health.insert(device.id.clone());
            listed.all.insert(device.id);
        }
        self.listed.insert(resource.to_owned(), listed);
    }

    pub(crate) fn plugin(&self, resource: &str) -> Option<Plugin> {
        self.plugins.get(resource).cloned()
    }

    /// Whether ids of the resource are the device manager's business, now or still.
    pub(crate) fn is_plugin_resource(&self, resource: &str) -> bool {
        self.listed.contains_key(resource) || self.in_use.contains_key(resource)
    }

    /// Whether the plugin's last list has the id, healthy or not.
    pub(crate) fn lists(&self, resource: &str, id: &str) -> bool {
        self.listed.get(resource).is_some_and(|listed| listed.all.contains(id))
    }

    /// The healthy ids; `None` when the resource was never listed or is forgotten.
    pub(crate) fn healthy(&self, resource: &str) -> Option<&Ids> {
        self.listed.get(resource).map(|listed| &listed.healthy)
    }

    /// Healthy ids by resource.
    pub(crate) fn all_healthy(&self) -> impl Iterator<Item = (&String, &Ids)> {
        self.listed.iter().map(|(resource, listed)| (resource, &listed.healthy))
    }

    /// Healthy ids that nobody has.
    pub(crate) fn available(&self, resource: &str) -> Ids {
        let taken = self.in_use.get(resource);
        let healthy = self.healthy(resource).into_iter().flatten();
        healthy.filter(|id| !taken.is_some_and(|taken| taken.contains(*id))).cloned().collect()
    }

    /// How many ids of each resource are in use.
    pub(crate) fn in_use(&self) -> BTreeMap<String, i64> {
        self.in_use.iter().map(|(resource, ids)| (resource.clone(), count(ids))).collect()
    }

    /// Marks an id as taken while its Allocate is still to come.
    pub(crate) fn take(&mut self, resource: &str, id: &str) {
        self.in_use.entry(resource.to_owned()).or_default().insert(id.to_owned());
    }

    /// Everything in use is what somebody holds: an Allocate that is still open is forgotten here.
    pub(crate) fn recount(&mut self) {
        self.in_use.clear();
        for holding in &self.holdings {
            let in_use = self.in_use.entry(holding.resource.clone()).or_default();
            in_use.extend(holding.ids.iter().cloned());
        }
    }

    /// Frees what pods hold that are not `active`; counts anew only then (kubelet's `UpdateAllocatedDevices`).
    pub(crate) fn free_inactive(&mut self, active: &BTreeSet<String>) {
        let before = self.holdings.len();
        self.holdings.retain(|holding| active.contains(&holding.pod_uid));
        if self.holdings.len() < before {
            self.recount();
        }
    }

    pub(crate) fn hold(&mut self, holding: Holding) {
        self.holdings.push(holding);
    }

    pub(crate) fn holdings(&self) -> &[Holding] {
        &self.holdings
    }

    /// One container's holdings, by resource.
    pub(crate) fn of_container(&self, pod_uid: &str, container: &str) -> impl Iterator<Item = &Holding> {
        self.holdings.iter().filter(move |held| held.pod_uid == pod_uid && held.container == container)
    }

    /// One container's ids by resource.
    pub(crate) fn container_ids(&self, pod_uid: &str, container: &str) -> BTreeMap<String, Ids> {
        let holdings = self.of_container(pod_uid, container);
        holdings.map(|held| (held.resource.clone(), held.ids.clone())).collect()
    }

    pub(crate) fn has_pod(&self, pod_uid: &str) -> bool {
        self.holdings.iter().any(|held| held.pod_uid == pod_uid)
    }

    /// The resources a checkpoint remembers.
    pub(crate) fn resources(&self) -> Vec<String> {
        self.listed.keys().cloned().collect()
    }

    /// Counts for the Node's status. A resource whose plugin is gone for longer than the grace is forgotten.
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

fn count(ids: &Ids) -> i64 {
    i64::try_from(ids.len()).unwrap_or(i64::MAX)
}
