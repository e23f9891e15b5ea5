//! The embedded cluster: an in-memory API server, kube-scheduler's side of the extender protocol and one kubelet a
//! node, with the production extender and device plugins, all of it a simulation ([`simulator`]): processes on hosts whose
//! files and sockets are in memory, in one thread whose time jumps. It needs nothing of the machine but a processor.
//!
//! Called by the command line and the tests, which [`run`](fn@run) a scenario, and by [`crate::fuzz`].

mod api_host;
mod cluster;
mod extender;
mod extender_pods;
mod held_bindings;
mod node;
mod program;
mod runtime;
mod simulation;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::runtime::System;
use anyhow::Context as _;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::scheduler::{Scheduler, SchedulerConfig};
pub use fake_cluster::{ServerVersionError, UnknownVersion, Version};
use kube::Client;
use simulator::network::LinkQuality;
use simulator::{Host, Process, Simulation};
use tokio::sync::Notify;

pub use self::simulation::{NotUp, on_cluster};
use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::extender_proxy::Proxy;
use crate::run::{self, Finished};
use crate::scenario::{CatalogSource, Part, Scenario};
use crate::scheduler_configuration::ExtenderEntry;
use api_host::ApiHost;
use extender::Extender;
use node::EmbeddedNode;

/// How long a wait may take: several times what kube-scheduler's five-minute retry takes.
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// How long messages between hosts take: as in one network, what the API server makes of them included.
const LINKS: LinkQuality = LinkQuality { milliseconds: (1, 5), loss: 0.0 };
/// Where hosts have the instance types of a file, as `deploy/` mounts them.
const CATALOG: &str = "/etc/neuron/catalog.json";

/// What varies between runs of one scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Feeds everything random: the free choices of kubelets and scheduler, and in which order things happen that happen at one
    /// time. The same scenario with the same seed and version is the same run, on any machine.
    pub seed: u64,
    /// Kubelets take the worst of their free choices.
    pub adversarial: bool,
    /// The Kubernetes version that the cluster is.
    pub kubernetes: Version,
}

/// Runs one scenario on an embedded cluster of its own.
///
/// # Errors
/// The cluster could not be brought up ([`NotUp`]) or taken down, a part of it panicked, or a step could not be carried out.
pub async fn run(scenario: &Scenario, options: Options) -> anyhow::Result<Finished> {
    let on_it = scenario.clone();
    on_cluster(scenario, options, async move |cluster| cluster.run(&on_it).await).await
}

/// A running embedded cluster, for whoever is in its simulation ([`on_cluster`]). Its timeouts and pauses are simulated time.
pub struct Embedded {
    api: ApiHost,
    clock: Clock,
    /// The harness' own way to the API server, which takes no time.
    client: Client,
    node_names: Vec<String>,
    nodes: Vec<EmbeddedNode>,
    /// The scheduler's host.
    control: Host,
    /// What the harness itself does, on the scheduler's host.
    harness: System,
    proxy: Arc<Proxy>,
    extender: Extender,
    scheduler: Cell<Option<(Process, Scheduler)>>,
    /// Notified at every write to the API server.
    written: Arc<Notify>,
    seed: u64,
    timeout: Duration,
}

impl Embedded {
    /// Brings up the scenario's nodes with their hardware, kubelets and plugins, the extender and a scheduler, and
    /// waits until every node's devices are allocatable.
    async fn up(simulation: &Simulation, scenario: &Scenario, options: Options) -> anyhow::Result<Self> {
        let clock = Clock::of_runtime();
        let api = ApiServer::new(clock.clone()).with_version(options.kubernetes);
        let written = observed(&api, simulation);
        simulation.set_links(LINKS);
        let api = ApiHost::new(simulation, api);
        let control = simulation.host("control");
        let harness = control.process("harness").system();
        let mut nodes = Vec::new();
        for (place, spec) in scenario.nodes.iter().enumerate() {
            let host = simulation.host(&format!("n{}", place + 1));
            nodes.push(EmbeddedNode::up(&api, host, spec, &scenario.catalog, options).await?);
        }
        let (client, proxy) = (api.client(), Arc::new(Proxy::start(&harness, control.ip().into())?));
        let extender = Extender::new(simulation, &api, &client, &proxy, scenario)?;
        let cluster = Embedded {
            client,
            node_names: nodes.iter().map(|node| node.name().to_owned()).collect(),
            nodes,
            proxy,
            extender,
            api,
            clock,
            control,
            harness,
            scheduler: Cell::default(),
            written,
            seed: options.seed,
            timeout: TIMEOUT,
        };
        cluster.start(Part::Extender, 0).await?;
        cluster.start(Part::Scheduler, 0).await?;
        for place in 0..cluster.nodes.len() {
            cluster.until_allocatable(place).await?;
        }
        Ok(cluster)
    }

    /// Runs one scenario, which this cluster was brought up for, and takes the cluster down.
    ///
    /// # Errors
    /// A step could not be carried out, or the cluster not taken down.
    pub async fn run(self, scenario: &Scenario) -> anyhow::Result<Finished> {
        let finished = run::run(&self, scenario).await;
        self.down().await.context("taking the embedded cluster down")?;
        finished
    }

    /// The same cluster with another timeout: callers that expect most waits to fail want a short one.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Waits until a node's plugin has reported and both resources are allocatable.
    async fn until_allocatable(&self, place: usize) -> anyhow::Result<()> {
        let node = self.node(place)?;
        if !node.has_plugin() {
            return Ok(());
        }
        let what = format!("node {} to advertise its devices", node.name());
        until(self, &what, async || node.is_allocatable(&self.client).await).await
    }

    /// Waits until none of a node's devices is allocatable: pods placed before that would fail admission.
    async fn until_withdrawn(&self, place: usize) -> anyhow::Result<()> {
        let node = self.node(place)?;
        let what = format!("node {} to withdraw its devices", node.name());
        until(self, &what, async || Ok(!node.has_any_allocatable(&self.client).await?)).await
    }

    /// Waits until the extender is ready and calls reach one that places pods.
    async fn until_extender_serves(&self) -> anyhow::Result<()> {
        let ready = async || Ok(self.extender.is_ready(&self.harness).await);
        until(self, "the extender to be ready", ready).await?;
        self.extender.take_calls();
        self.until_extender_leads().await
    }

    /// Waits until calls reach one that places pods.
    async fn until_extender_leads(&self) -> anyhow::Result<()> {
        until(self, "an extender to lead", async || Ok(self.proxy.target().is_some())).await
    }

    /// Starts the scheduler, which asks the extender as the deployed one does.
    fn start_scheduler(&self) -> anyhow::Result<()> {
        let extender = ExtenderEntry::deployed_at(&format!("http://{}", self.proxy.address()))?;
        let config = SchedulerConfig {
            name: self.scheduler_name().to_owned(),
            extenders: vec![extender.for_fake_scheduler()?],
            seed: self.seed,
        };
        let process = self.control.process("scheduler");
        let scheduler =
            Scheduler::start(&process.system(), self.api.client_on(&self.control), &self.api.server, config);
        self.scheduler.set(Some((process, scheduler)));
        Ok(())
    }

    /// Stops the scheduler. Whether it ran.
    async fn stop_scheduler(&self) -> bool {
        let Some((process, scheduler)) = self.scheduler.take() else { return false };
        scheduler.stop().await;
        process.exit();
        true
    }

    fn node(&self, place: usize) -> anyhow::Result<&EmbeddedNode> {
        self.nodes.get(place).with_context(|| format!("there is no node {place}"))
    }
}

/// Makes every write an event of the simulation, and notifies who waits for one.
fn observed(api: &ApiServer, simulation: &Simulation) -> Arc<Notify> {
    let written = Arc::new(Notify::new());
    let (told, simulation) = (Arc::clone(&written), simulation.clone());
    api.observe(Box::new(move |write| {
        let what = if write.after.is_some() { "writes" } else { "removes" };
        let (kind, namespace, name, version) = (write.kind, write.namespace, write.name, write.version);
        simulation.event("API server", format_args!("{what} {kind} {namespace}/{name} as {version}"));
        told.notify_one();
    }));
    written
}

/// Where the host has the instance types of the catalog's file, which are put there; none if there is no file.
fn catalog_on(host: &Host, catalog: &CatalogSource) -> anyhow::Result<Option<PathBuf>> {
    let Some(text) = catalog.text() else { return Ok(None) };
    let path = Path::new(CATALOG);
    host.files().write(path, text).with_context(|| format!("writing {CATALOG} of {}", host.name()))?;
    Ok(Some(path.to_owned()))
}
