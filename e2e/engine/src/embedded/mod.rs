//! The embedded cluster: an in-memory API server, kube-scheduler's side of the extender protocol and one kubelet a
//! node, with the production extender and device plugins in this process. It needs nothing but a folder.

mod node;
mod program;
mod runtime;

use std::net::SocketAddr;
use std::sync::Mutex as StdMutex;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context as _, bail};
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::scheduler::{ExtenderConfig, ManagedResource, Scheduler, SchedulerConfig};
use jiff::Timestamp;
use kube::Client;
use neuron_core::names;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::cluster::Cluster;
use crate::cluster::wait::Wait;
use crate::extender_proxy::Proxy;
use crate::run::{self, Finished};
use crate::scenario::{DeviceState, Moment, Part, Scenario};
use node::EmbeddedNode;
use program::Program;

/// Real time between two looks of a wait, and the cluster's time that passes in it: waiting out kubelet's 10 s status
/// period takes a tenth of a second, and kube-scheduler's five-minute retry a few seconds even under load.
const LOOK: Duration = Duration::from_millis(5);
const CLOCK_STEP: Duration = Duration::from_millis(500);
/// Real time that a wait may take: many times kube-scheduler's five-minute retry, on a loaded machine too.
const PATIENCE: Duration = Duration::from_secs(60);

/// What varies between runs of one scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Feeds the free choices of kubelets and scheduler.
    pub seed: u64,
    /// Kubelets take the worst of their free choices.
    pub hostile: bool,
}

/// Runs one scenario on an embedded cluster of its own.
pub async fn run(scenario: &Scenario, options: Options) -> anyhow::Result<Finished> {
    let cluster = Embedded::up(scenario, options).await.context("bringing the embedded cluster up")?;
    let finished = run::run(&cluster, scenario).await;
    cluster.down().await.context("taking the embedded cluster down")?;
    finished
}

/// A running embedded cluster.
pub struct Embedded {
    clock: Clock,
    api: ApiServer,
    client: Client,
    names: Vec<String>,
    nodes: Vec<EmbeddedNode>,
    proxy: Proxy,
    extender: Mutex<Option<Program>>,
    scheduler: StdMutex<Option<Scheduler>>,
    seed: u64,
    patience: Duration,
    // Last: sockets and device files are in it until everything above is gone.
    folder: TempDir,
}

impl Embedded {
    /// Brings up the scenario's nodes with their hardware, kubelets and plugins, the extender and a scheduler, and
    /// waits until every node's devices are advertised.
    pub async fn up(scenario: &Scenario, options: Options) -> anyhow::Result<Self> {
        let clock = Clock::new();
        let api = ApiServer::new(clock.clone());
        let folder = short_folder().context("no temporary folder")?;
        let mut nodes = Vec::new();
        for (place, spec) in scenario.nodes.iter().enumerate() {
            let name = format!("n{}", place + 1);
            let home = folder.path().join(&name);
            nodes.push(EmbeddedNode::up(&api, &name, home, spec, options).await?);
        }
        let cluster = Embedded {
            client: api.client(),
            api,
            names: nodes.iter().map(|node| node.name().to_owned()).collect(),
            clock,
            nodes,
            proxy: Proxy::start().await?,
            extender: Mutex::new(None),
            scheduler: StdMutex::new(None),
            seed: options.seed,
            patience: PATIENCE,
            folder,
        };
        cluster.start(Part::Extender, 0).await?;
        cluster.start(Part::Scheduler, 0).await?;
        for place in 0..cluster.nodes.len() {
            cluster.node_serves(place).await?;
        }
        Ok(cluster)
    }

    /// Waits of this cluster end sooner: for callers that expect most of them to fail.
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Waits until a node's plugin has reported and kubelet advertises both resources.
    async fn node_serves(&self, place: usize) -> anyhow::Result<()> {
        let node = &self.nodes[place];
        if !node.has_plugin() {
            return Ok(());
        }
        let what = format!("node {} to advertise its devices", node.name());
        let wait = Wait::new(self, &what);
        while !node.advertises(&self.client).await? {
            wait.look_again().await?;
        }
        Ok(())
    }

    /// Waits until kubelet no longer advertises a node's devices: pods placed before that would fail admission.
    async fn node_withdrawn(&self, place: usize) -> anyhow::Result<()> {
        let node = self.node(place)?;
        let what = format!("node {} to withdraw its devices", node.name());
        let wait = Wait::new(self, &what);
        while node.offers_any(&self.client).await? {
            wait.look_again().await?;
        }
        Ok(())
    }

    async fn start_extender(&self) -> anyhow::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("extender: no free loopback port")?;
        let address = listener.local_addr()?;
        let client = self.client.clone();
        let program = Program::start("extender", move |shutdown| {
            neuron_extender::serve(neuron_extender::Config::default(), client, listener, shutdown)
        })?;
        *self.extender.lock().await = Some(program);
        let wait = Wait::new(self, "the extender to be ready");
        while !is_ready(address).await {
            wait.look_again().await?;
        }
        self.proxy.set_target(Some(address));
        Ok(())
    }

    /// Nobody reaches the extender any more.
    async fn take_extender(&self) -> anyhow::Result<Program> {
        self.proxy.set_target(None);
        self.extender.lock().await.take().context("the extender is already stopped")
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
        let scheduler = Scheduler::start(&self.api, config);
        *self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = Some(scheduler);
    }

    fn node(&self, place: usize) -> anyhow::Result<&EmbeddedNode> {
        self.nodes.get(place).with_context(|| format!("there is no node {place}"))
    }
}

impl Cluster for Embedded {
    fn client(&self) -> Client {
        self.client.clone()
    }

    fn node_names(&self) -> &[String] {
        &self.names
    }

    fn scheduler_name(&self) -> &str {
        "my-scheduler"
    }

    fn outside_reasons(&self) -> &[&str] {
        &[]
    }

    async fn pass_time(&self) {
        self.clock.advance(CLOCK_STEP);
        tokio::time::sleep(LOOK).await;
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    async fn stop(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.take_extender().await?.stop().await,
            Part::Scheduler => {
                let scheduler = self.scheduler.lock().unwrap_or_else(PoisonError::into_inner).take();
                scheduler.context("the scheduler is already stopped")?.stop().await;
                Ok(())
            }
            Part::Plugin => {
                self.node(node)?.stop_plugin().await?;
                self.node_withdrawn(node).await
            }
            Part::Kubelet => self.node(node)?.stop_kubelet().await,
            Part::Node => self.node(node)?.cut().await,
            Part::ApiServer => {
                self.api.set_available(false);
                Ok(())
            }
            Part::Containerd | Part::Etcd => bail!("the embedded cluster has no {}", part.name()),
        }
    }

    async fn start(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            Part::Extender => self.start_extender().await,
            Part::Scheduler => {
                self.start_scheduler();
                Ok(())
            }
            Part::Plugin => {
                self.node(node)?.start_plugin(self.client.clone()).await?;
                self.node_serves(node).await
            }
            Part::Kubelet => {
                self.node(node)?.start_kubelet().await?;
                self.node_serves(node).await
            }
            Part::Node => {
                self.node(node)?.begin().await?;
                self.node_serves(node).await
            }
            Part::ApiServer => {
                self.api.set_available(true);
                Ok(())
            }
            Part::Containerd | Part::Etcd => bail!("the embedded cluster has no {}", part.name()),
        }
    }

    async fn set_device(&self, node: usize, device: u8, state: DeviceState) -> anyhow::Result<()> {
        self.node(node)?.set_device(device, state)
    }

    async fn restart(&self, part: Part, node: usize) -> anyhow::Result<()> {
        match part {
            // Before they can tidy up.
            Part::Extender => self.take_extender().await?.kill().await?,
            Part::Plugin => {
                self.node(node)?.kill_plugin().await?;
                self.node_withdrawn(node).await?;
            }
            _ => self.stop(part, node).await?,
        }
        self.start(part, node).await
    }

    async fn reboot(&self, node: usize, hardware_anew: bool) -> anyhow::Result<()> {
        self.node(node)?.reboot(hardware_anew).await?;
        self.node_serves(node).await
    }

    async fn restart_unlisted(&self, place: usize) -> anyhow::Result<()> {
        self.stop(Part::Plugin, place).await?;
        let node = self.node(place)?;
        node.hold_lists(true).await?;
        node.start_plugin(self.client.clone()).await?;
        let what = format!("kubelet of {} to know the plugin without a list", node.name());
        let wait = Wait::new(self, &what);
        while !node.waits_for_lists().await? {
            wait.look_again().await?;
        }
        node.kill_plugin().await?;
        node.hold_lists(false).await?;
        self.start(Part::Plugin, place).await
    }

    async fn pass(&self, time: Duration) {
        let until = self.clock.now().checked_add(time).unwrap_or(Timestamp::MAX);
        while self.clock.now() < until {
            self.pass_time().await;
        }
    }

    async fn hold(&self, at: Moment) -> anyhow::Result<()> {
        self.proxy.set_held(at, true);
        Ok(())
    }

    fn is_held(&self, at: Moment) -> bool {
        self.proxy.is_held(at)
    }

    async fn release(&self, at: Moment) -> anyhow::Result<()> {
        self.proxy.set_held(at, false);
        Ok(())
    }

    async fn down(self) -> anyhow::Result<()> {
        let scheduler = self.scheduler.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(scheduler) = scheduler {
            scheduler.stop().await;
        }
        if let Some(extender) = self.extender.lock().await.take() {
            extender.stop().await?;
        }
        for node in &self.nodes {
            node.down().await?;
        }
        let path = self.folder.path().to_owned();
        self.folder.close().with_context(|| format!("removing {}", path.display()))?;
        if path.exists() {
            bail!("{} is still there", path.display());
        }
        Ok(())
    }
}

/// An empty folder with a short name, since socket paths end at 108 bytes; in memory where that can be had, since a
/// machine is a thousand small files.
fn short_folder() -> std::io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("ne").rand_bytes(6);
    builder.tempdir_in("/dev/shm").or_else(|_| builder.tempdir())
}

/// Whether the extender at this address answers `/readyz` with 200.
async fn is_ready(address: SocketAddr) -> bool {
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    let client: Client<_, axum::body::Body> = Client::builder(TokioExecutor::new()).build_http();
    let Ok(uri) = format!("http://{address}/readyz").parse() else { return false };
    client.get(uri).await.is_ok_and(|response| response.status().is_success())
}
