//! Puts the plugin's parts together and ends them in the right order. Called by `main`, and by whoever runs the plugin as
//! a library.

mod start;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use neuron_core::catalog::Catalog;
use neuron_core::driver::Drivers;
use neuron_core::topology::rules;
use runtime::system::Address;
use runtime::{System, reached};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::allocation::cdi::{CdiError, check_runtime, keep_cdi, write_cdi};
use crate::allocation::engine::Engine;
use crate::allocation::injection::DeviceInjection;
use crate::config::Config;
use crate::hardware::monitor::{DEVICES, follow_health};
use crate::healthz;
use crate::kubelet::folder::PluginFolder;
use crate::kubelet::podresources::PodResources;
use crate::kubelet::registration::Registration;
use crate::kubelet::together::Together;
use crate::metrics::Metrics;
use crate::parts::{PartEnded, Parts};
use crate::probe::Sizes;
use crate::report::lease::LeaseUpkeep;
use crate::report::upkeep::Upkeep;
use crate::resource::advertised;
use crate::status::Status;

/// Serves kubelet until `shutdown`, and asks nobody but `system` for files, sockets, tasks and the time of day. A machine
/// without devices, an API server that is away and a kubelet that is away do not end it: the log and `/healthz` name what is
/// missing, and the plugin goes on when that is there.
///
/// # Errors
/// What no waiting heals: a catalog file that cannot be used, an address that cannot be listened on, a part that ended, a task that
/// panicked.
pub async fn run(
    system: System,
    config: Config,
    client: Client,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    tracing::info!(node = config.node_name, ?config, "starting");
    let catalog = load_catalog(&system, config.catalog.as_deref());
    let Some(catalog) = shutdown.run_until_cancelled(catalog).await else { return Ok(()) };
    let (system, panics) = system.telling_panics();
    let mut parts = Parts::new(system.clone(), panics);
    // Parts end at the shutdown, and when one of them has broken.
    let stop = shutdown.child_token();
    let plugin = Plugin::new(system, config, client, catalog?);
    plugin.serve_health(&mut parts, &stop)?;
    let lived = plugin.live(&mut parts, &stop).await;
    stop.cancel();
    let ended = parts.end().await;
    Ok(lived.and(ended)?)
}

async fn load_catalog(system: &System, file: Option<&Path>) -> anyhow::Result<Cow<'static, Catalog>> {
    let Some(file) = file else { return Ok(Cow::Borrowed(Catalog::embedded())) };
    let text = system
        .read_to_string(file)
        .await
        .with_context(|| format!("cannot read catalog {} (--catalog)", file.display()))?;
    let catalog = Catalog::from_json(&text)
        .with_context(|| format!("catalog {} (--catalog) makes no sense", file.display()))?;
    Ok(Cow::Owned(catalog))
}

/// What the status calls the names of devices.
const CDI: &str = "device names";

/// What the parts share.
struct Plugin {
    system: System,
    config: Config,
    client: Client,
    catalog: Cow<'static, Catalog>,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
    engine: Arc<Engine>,
    pod_resources: Arc<PodResources>,
    folder: PluginFolder,
    upkeep: Arc<Upkeep>,
}

impl Plugin {
    fn new(system: System, config: Config, client: Client, catalog: Cow<'static, Catalog>) -> Self {
        let status = Arc::new(Status::default());
        let metrics = Arc::new(Metrics::default());
        status.starting(DEVICES);
        for resource in advertised(config.legacy_resource) {
            status.starting(resource.name);
            metrics.starting(resource.name);
        }
        let (for_status, for_metrics) = (Arc::clone(&status), Arc::clone(&metrics));
        let engine = Engine::new(system.clone(), &config, client.clone(), for_status, for_metrics);
        let engine = Arc::new(engine);
        let pod_resources = Arc::new(PodResources::new(system.clone(), &config.kubelet_dir));
        let folder = PluginFolder::new(system.clone(), config.plugin_dir());
        let rules = rules(&catalog, config.policy);
        status.tell("rules", &format!("{rules}, of the instance types and policy {}", config.policy));
        let upkeep = Upkeep::new(
            Arc::clone(&engine),
            folder.clone(),
            &config,
            rules,
            client.clone(),
            Arc::clone(&status),
        );
        let upkeep = Arc::new(upkeep);
        let ignored = config.health.ignored.iter().map(String::as_str);
        let unknown: Vec<&str> = ignored.filter(|name| !Drivers::embedded().tells_health_as(name)).collect();
        if !unknown.is_empty() {
            let names = unknown.join(",");
            let note = format!(
                "--health-ignore names {names}, which no known driver reports: it has no effect; correct it"
            );
            status.note("health", &note);
        }
        let plugin = Plugin {
            system,
            config,
            client,
            catalog,
            status,
            metrics,
            engine,
            pod_resources,
            folder,
            upkeep,
        };
        plugin.show_sizes();
        plugin
    }

    fn show_sizes(&self) {
        let Some(probe) = &self.config.probe else { return };
        // A probe outlives the plugin, and keeps nothing of it.
        let status = Arc::downgrade(&self.status);
        let (engine, upkeep) = (Arc::downgrade(&self.engine), Arc::downgrade(&self.upkeep));
        probe.show(move || {
            let (engine, upkeep, status) = (engine.upgrade()?, upkeep.upgrade()?, status.upgrade()?);
            let (problems, notes) = status.counts();
            Some(Sizes { failures: upkeep.failure_count(), problems, notes, ..engine.sizes() })
        });
    }

    fn serve_health(&self, parts: &mut Parts, stop: &CancellationToken) -> anyhow::Result<()> {
        let Some(address) = self.config.listen else { return Ok(()) };
        let listener = self.system.listen(&Address::Tcp(address));
        let listener = listener.with_context(|| format!("cannot listen on {address} (--listen)"))?;
        let shown = healthz::Shown {
            status: Arc::clone(&self.status),
            metrics: Arc::clone(&self.metrics),
            engine: Arc::clone(&self.engine),
            resources: advertised(self.config.legacy_resource),
        };
        let server = healthz::server(self.system.clone(), shown);
        parts.spawn("health server", server.run(listener, stop.clone()));
        Ok(())
    }

    /// Serves until `stop`.
    async fn live(&self, parts: &mut Parts, stop: &CancellationToken) -> Result<(), PartEnded> {
        let (engine, system, token) = (Arc::clone(&self.engine), self.system.clone(), stop.clone());
        parts.spawn("pod watch", async move { engine.pods.watch(&system, token).await });
        let found = async {
            self.engine.handover.start().await;
            self.find_devices().await;
            self.name_devices().await;
            self.adopt().await;
        };
        if parts.beside(stop, found).await?.is_none() {
            return Ok(());
        }
        self.keep_names(parts, stop);
        if let Some(namespace) = &self.config.lease_namespace {
            let (system, client, status) =
                (self.system.clone(), self.client.clone(), Arc::clone(&self.status));
            let lease = LeaseUpkeep::new(
                system,
                client,
                &self.config,
                namespace,
                status,
                Arc::clone(&self.upkeep.revived),
            );
            parts.spawn("lease", lease.run(stop.clone()));
        }
        let (upkeep, token) = (Arc::clone(&self.upkeep), stop.clone());
        parts.spawn("upkeep", async move { upkeep.run(token).await });
        let resources = advertised(self.config.legacy_resource);
        let together = Together::of(resources.len());
        for resource in resources {
            let registration = Registration {
                resource,
                engine: Arc::clone(&self.engine),
                status: Arc::clone(&self.status),
                metrics: Arc::clone(&self.metrics),
                pod_resources: Arc::clone(&self.pod_resources),
                folder: self.folder.clone(),
                poll: self.config.poll,
                together: together.clone(),
            };
            parts.spawn(resource.name, registration.run(stop.clone()));
        }
        let (machine, events) = (&self.engine.machine, self.engine.events.clone());
        let reported = self.upkeep.reported.subscribe();
        let health = follow_health(
            &self.system,
            (&self.config.root, self.config.health_interval),
            machine,
            reported,
            (events, Arc::clone(&self.status)),
        );
        match parts.beside(stop, health).await? {
            Some(ended) => Err(PartEnded::Broke(ended)),
            None => Ok(()),
        }
    }

    /// Writes the file by which container runtimes find devices by their names, before any container is given one.
    async fn name_devices(&self) {
        let Config { device_injection, cdi_dir, root, poll, .. } = &self.config;
        let machine = self.engine.machine();
        let Some(machine) = machine.filter(|_| *device_injection == DeviceInjection::Cdi) else { return };
        let nodes: Api<Node> = Api::all(self.client.clone());
        loop {
            let node = timeout(self.config.api_timeout, nodes.get(&self.config.node_name)).await;
            // Without the API server this is not known, and devices are served all the same.
            let Ok(Ok(node)) = node else { break };
            let Err(error) = check_runtime(&node) else { break };
            reached("plugin: runtime without device names");
            self.status.problem(CDI, &error.to_string());
            sleep(*poll).await;
        }
        let write = || write_cdi(&self.system, cdi_dir, root, &machine.topology);
        while let Err(error) = write().await {
            reached("plugin: device names not written");
            self.status.problem(CDI, &error.to_string());
            sleep(*poll).await;
        }
        self.status.fine(CDI);
    }

    /// Whoever clears the runtime's folder takes the devices of the next container with it.
    fn keep_names(&self, parts: &mut Parts, stop: &CancellationToken) {
        let machine = self.engine.machine();
        let Some(machine) = machine.filter(|_| self.config.device_injection == DeviceInjection::Cdi) else {
            return;
        };
        let Config { cdi_dir, root, poll, .. } = self.config.clone();
        let (system, status, stop) = (self.system.clone(), Arc::clone(&self.status), stop.clone());
        parts.spawn(CDI, async move {
            let tell = |written: Result<(), CdiError>| match written {
                Ok(()) => status.fine(CDI),
                Err(error) => status.problem(CDI, &error.to_string()),
            };
            let keep = keep_cdi(&system, (&cdi_dir, &root), &machine.topology, poll, tell);
            stop.run_until_cancelled(keep).await;
        });
    }
}
