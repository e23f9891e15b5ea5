//! The embedded cluster: an in-memory API server, kube-scheduler's side of the extender protocol and one kubelet a
//! node, with the production extender and device plugins in this process. It needs nothing but a folder.
//!
//! Called by the command line and the tests, which [`run`](fn@run) a scenario, and by [`crate::fuzz`].

mod cluster;
mod extender;
mod node;
mod program;
mod runtime;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use fake_cluster::System;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::scheduler::{ExtenderConfig, ManagedResource, Scheduler, SchedulerConfig};
pub use fake_cluster::{ServerVersionError, UnknownVersion, Version};
use kube::Client;
use neuron_core::names;
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::extender_proxy::Proxy;
use crate::run::{self, Finished};
use crate::scenario::{Part, Scenario};
use extender::Extender;
use node::EmbeddedNode;

/// How long a wait may take: many times what kube-scheduler's five-minute retry takes, by [`cluster`]'s clock.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What varies between runs of one scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Feeds the free choices of kubelets and scheduler.
    pub seed: u64,
    /// Kubelets take the worst of their free choices.
    pub adversarial: bool,
    /// The Kubernetes version that the cluster is.
    pub kubernetes: Version,
}

/// Runs one scenario on an embedded cluster of its own.
///
/// # Errors
/// The cluster could not be brought up or taken down, or a step could not be carried out.
pub async fn run(scenario: &Scenario, options: Options) -> anyhow::Result<Finished> {
    Embedded::up(scenario, options).await?.run(scenario).await
}

/// A running embedded cluster.
pub struct Embedded {
    clock: Clock,
    api: ApiServer,
    client: Client,
    node_names: Vec<String>,
    nodes: Vec<EmbeddedNode>,
    proxy: Proxy,
    extender: Extender,
    scheduler: Mutex<Option<Scheduler>>,
    seed: u64,
    timeout: Duration,
    // Last: sockets and device files are in it until everything above is gone.
    folder: TempDir,
}

impl Embedded {
    /// Brings up the scenario's nodes with their hardware, kubelets and plugins, the extender and a scheduler, and
    /// waits until every node's devices are allocatable.
    ///
    /// # Errors
    /// A machine cannot be made of the scenario's node, or a part does not start.
    pub async fn up(scenario: &Scenario, options: Options) -> anyhow::Result<Self> {
        Self::start_all(scenario, options).await.context("bringing the embedded cluster up")
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

    async fn start_all(scenario: &Scenario, options: Options) -> anyhow::Result<Self> {
        let clock = Clock::new();
        let api = ApiServer::new(clock.clone()).with_version(options.kubernetes);
        let folder = testkit_support::short_folder().context("no temporary folder")?;
        let mut nodes = Vec::new();
        for (place, spec) in scenario.nodes.iter().enumerate() {
            let name = format!("n{}", place + 1);
            let home = folder.path().join(&name);
            nodes.push(EmbeddedNode::up(&api, &name, home, spec, &scenario.catalog, options).await?);
        }
        let cluster = Embedded {
            client: api.client(),
            api,
            node_names: nodes.iter().map(|node| node.name().to_owned()).collect(),
            clock,
            nodes,
            proxy: Proxy::start().await?,
            extender: Extender::new(&scenario.catalog),
            scheduler: Mutex::new(None),
            seed: options.seed,
            timeout: TIMEOUT,
            folder,
        };
        cluster.start(Part::Extender, 0).await?;
        cluster.start(Part::Scheduler, 0).await?;
        for place in 0..cluster.nodes.len() {
            cluster.until_allocatable(place).await?;
        }
        Ok(cluster)
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

    fn start_scheduler(&self) {
        let managed = |name: &str| ManagedResource { name: name.to_owned(), ignored_by_scheduler: false };
        let extender = ExtenderConfig {
            filter_verb: Some("filter".into()),
            bind_verb: Some("bind".into()),
            managed_resources: vec![managed(names::NEURON), managed(names::NEURONCORE)],
            http_timeout: Duration::from_secs(30),
            ..ExtenderConfig::new(format!("http://{}", self.proxy.address()))
        };
        let config = SchedulerConfig {
            name: self.scheduler_name().to_owned(),
            extenders: vec![extender],
            seed: self.seed,
        };
        let scheduler = Scheduler::start(&System::real(), self.client.clone(), &self.api, config);
        *self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = Some(scheduler);
    }

    fn take_scheduler(&self) -> Option<Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn node(&self, place: usize) -> anyhow::Result<&EmbeddedNode> {
        self.nodes.get(place).with_context(|| format!("there is no node {place}"))
    }
}
