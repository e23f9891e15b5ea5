//! The production extender of the embedded cluster, behind the proxy: one that places alone or, where a scenario is about the leader, two
//! replicas of which one leads. They may be stopped, killed, frozen and started again. Used by [`super::cluster`].

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use axum::body::Body;
use axum::http::Request;
use futures::future::join_all;
use kube::Client;
use runtime::System;
use runtime::system::Address;
use simulator::{Host, Simulation};

use super::api_host::ApiHost;
use super::catalog_on;
use super::extender_pods::ExtenderPods;
use super::program::Program;
use crate::extender_proxy::Proxy;
use crate::http_call::{call, metrics_of};
use crate::scenario::Scenario;

/// The port that it listens on.
const PORT: u16 = 12345;
/// The hosts of two replicas; one extender is on the first.
const HOSTS: [&str; 2] = ["extender", "extender-2"];

/// The extender, whether it runs or not.
pub(super) struct Extender {
    api: ApiHost,
    proxy: Arc<Proxy>,
    replicas: Vec<Replica>,
    /// The pods of two replicas; none of one that places alone.
    pods: Option<ExtenderPods>,
}

/// One process of it.
struct Replica {
    host: Host,
    config: neuron_extender::Config,
    program: RefCell<Option<Program>>,
    is_frozen: Cell<bool>,
    /// The pod of what runs, where it has one.
    pod: RefCell<Option<String>>,
}

impl Extender {
    /// One for the scenario that does not run yet. Calls through the proxy reach it, or the replica that leads.
    ///
    /// # Errors
    /// The catalog cannot be put among a host's files.
    pub(super) fn new(
        simulation: &Simulation,
        api: &ApiHost,
        client: &Client,
        proxy: &Arc<Proxy>,
        scenario: &Scenario,
    ) -> anyhow::Result<Self> {
        let has_replicas = scenario.needs_replicas();
        let count = if has_replicas { HOSTS.len() } else { 1 };
        let replica = |name: &&str| -> anyhow::Result<Replica> {
            let host = simulation.host(name);
            let config = neuron_extender::Config {
                catalog: catalog_on(&host, &scenario.catalog)?,
                ..neuron_extender::Config::default()
            };
            let (program, is_frozen, pod) = (RefCell::default(), Cell::new(false), RefCell::default());
            Ok(Replica { host, config, program, is_frozen, pod })
        };
        Ok(Self {
            replicas: HOSTS.iter().take(count).map(replica).collect::<Result<_, _>>()?,
            pods: has_replicas.then(|| ExtenderPods::followed_by(proxy, &api.server, client)),
            api: api.clone(),
            proxy: Arc::clone(proxy),
        })
    }

    /// Starts what of it does not run. It is ready some time later.
    pub(super) async fn start(&self) -> anyhow::Result<()> {
        for replica in self.replicas.iter().filter(|replica| !replica.runs()) {
            let mut config = replica.config.clone();
            if let Some(pods) = &self.pods {
                let pod = pods.create(replica.address()).await?;
                config.leader_election = Some(pods.election(&pod));
                replica.pod.replace(Some(pod));
            }
            let process = replica.host.process("extender");
            let (system, client) = (process.system(), self.api.client_on(&replica.host));
            let listener = system.listen(&Address::Tcp((Ipv4Addr::UNSPECIFIED, PORT).into()));
            let listener = listener.with_context(|| format!("extender: port {PORT} is not free"))?;
            let serve = |shutdown| neuron_extender::serve(system, config, client, listener, shutdown);
            replica.program.replace(Some(Program::start(process, serve)));
        }
        Ok(())
    }

    /// Has calls reach the one that places alone. Which of two replicas they reach their pods say.
    pub(super) fn take_calls(&self) {
        let alone = self.replicas.first().filter(|_| self.pods.is_none()).map(Replica::address);
        if alone.is_some() && self.proxy.target() != alone {
            self.proxy.set_target(alone);
        }
    }

    /// Whether what of it runs and is not frozen answers `/readyz` with 200.
    pub(super) async fn is_ready(&self, system: &System) -> bool {
        let running = self.replicas.iter().filter(|replica| replica.runs() && !replica.is_frozen.get());
        let answers = join_all(running.map(|replica| is_ready(system, replica.address()))).await;
        !answers.is_empty() && answers.into_iter().all(|is_ready| is_ready)
    }

    /// What each replica that runs shows at `/metrics`, by the name of its host.
    pub(super) async fn metrics(&self, system: &System) -> anyhow::Result<BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        for replica in self.replicas.iter().filter(|replica| replica.runs() && !replica.is_frozen.get()) {
            let host = replica.host.name().to_owned();
            let text = metrics_of(system, replica.address()).await;
            all.insert(host, text.with_context(|| format!("metrics of {}", replica.host.name()))?);
        }
        Ok(all)
    }

    /// Stops all of it.
    pub(super) async fn stop(&self) -> anyhow::Result<()> {
        self.proxy.set_target(None);
        ensure!(self.replicas.iter().any(Replica::runs), "the extender is already stopped");
        self.down().await?;
        for replica in &self.replicas {
            self.remove_pod(replica).await?;
        }
        Ok(())
    }

    /// Kills all of it.
    pub(super) async fn kill(&self) -> anyhow::Result<()> {
        self.proxy.set_target(None);
        ensure!(self.replicas.iter().any(Replica::runs), "the extender is already stopped");
        for replica in &self.replicas {
            self.kill_replica(replica).await?;
        }
        Ok(())
    }

    /// Kills the replica that leads, whose pod is gone then, as its Deployment makes another one.
    pub(super) async fn kill_leader(&self) -> anyhow::Result<()> {
        self.kill_replica(self.leader()?).await
    }

    /// Stops the replica that leads where it is; its address.
    pub(super) fn freeze_leader(&self) -> anyhow::Result<SocketAddr> {
        let leader = self.leader()?;
        leader.program.borrow().as_ref().context("the extender that leads does not run")?.freeze();
        leader.is_frozen.set(true);
        Ok(leader.address())
    }

    /// Lets the replica go on that was frozen.
    pub(super) fn thaw(&self) -> anyhow::Result<()> {
        let frozen = self.replicas.iter().find(|replica| replica.is_frozen.get());
        frozen.context("no extender is stopped where it is")?.thaw();
        Ok(())
    }

    /// Ends what runs of it.
    pub(super) async fn down(&self) -> anyhow::Result<()> {
        for replica in &self.replicas {
            replica.thaw();
            if let Some(program) = replica.program.take() {
                program.stop().await?;
            }
        }
        Ok(())
    }

    async fn kill_replica(&self, replica: &Replica) -> anyhow::Result<()> {
        replica.is_frozen.set(false);
        if let Some(program) = replica.program.take() {
            program.kill().await?;
            self.remove_pod(replica).await?;
        }
        Ok(())
    }

    async fn remove_pod(&self, replica: &Replica) -> anyhow::Result<()> {
        match (&self.pods, replica.pod.take()) {
            (Some(pods), Some(pod)) => pods.remove(&pod).await,
            _ => Ok(()),
        }
    }

    /// The replica that calls reach.
    fn leader(&self) -> anyhow::Result<&Replica> {
        let target = self.proxy.target();
        let leader = self.replicas.iter().find(|replica| target == Some(replica.address()));
        leader.context("no extender leads")
    }
}

impl Replica {
    fn address(&self) -> SocketAddr {
        (self.host.ip(), PORT).into()
    }

    fn runs(&self) -> bool {
        self.program.borrow().is_some()
    }

    /// Lets it go on, if it is frozen.
    fn thaw(&self) {
        if let Some(program) = self.program.borrow().as_ref().filter(|_| self.is_frozen.take()) {
            program.thaw();
        }
    }
}

/// Whether the extender at this address answers `/readyz` with 200.
async fn is_ready(system: &System, address: SocketAddr) -> bool {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = axum::http::Uri::from_static("/readyz");
    call(system, address, request).await.is_ok_and(|answer| answer.status().is_success())
}
