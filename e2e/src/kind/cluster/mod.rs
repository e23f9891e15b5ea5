//! A cluster of kind with the suite installed. The methods lie in a file for each thing that a scenario, or who prepares
//! its nodes, does to the cluster.

mod evidence;
mod extender;
mod extender_policy;
mod faults;
mod handover;
mod hardware;
mod healing;
mod held_bindings;
mod held_calls;
mod https;
pub(crate) mod install;
mod ioctl_agent;
mod leader;
pub(crate) mod leases;
mod metrics;
pub(crate) mod plugin;
mod plugin_policy;
mod published_checks;
mod rights;
pub mod scheduling;

use anyhow::Context as _;
use kind_driver::phases::Phases;
use kind_driver::{Cluster, PortForward, network};
use kube::Client;
use neuron_e2e_engine::embedded::Version;
use neuron_e2e_engine::extender_proxy::Proxy;
use neuron_e2e_engine::outcome::SchedulerTexts;
use neuron_e2e_engine::scenario::NodeSpec;
use neuron_e2e_engine::scheduler_configuration::SchedulerConfiguration;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::images::Images;
use super::{OWNER, Options};
use crate::report::print;
use held_bindings::HeldBindings;
use leader::StoppedLeader;
use scheduling::Setup;

/// A running cluster with the suite installed.
pub struct KindCluster {
    /// The release of Kubernetes that its API server is of, such as `v1.37.2`. Asked once: later the server may be away.
    release: String,
    proxy: Proxy,
    /// How the schedulers are configured now; none until a scenario is staged.
    setup: Mutex<Option<Setup>>,
    /// The proxy's way to the extender, where calls go through the proxy.
    forward: Mutex<Option<PortForward>>,
    /// The replica of the extender that a scenario has stopped where it is.
    stopped_leader: Mutex<Option<StoppedLeader>>,
    /// What holds Bindings at the API server, where something does.
    held_bindings: std::sync::Mutex<Option<HeldBindings>>,
    /// What hardware each worker has now; none where it must be made anew.
    staged: Mutex<Vec<Option<NodeSpec>>>,
    // Last: deletes the cluster when everything above is gone.
    driver: Cluster,
}

impl KindCluster {
    /// Makes the cluster and installs the suite, as one of several clusters whose phases are reported together. Nothing is
    /// waited for: each scenario waits for what it needs.
    ///
    /// # Errors
    /// The cluster cannot be made, or the suite not be installed; then with where the evidence lies.
    pub async fn up(options: &Options, images: &Images, phases: &Phases) -> anyhow::Result<Self> {
        let mut began = Instant::now();
        let mut done = |what: &str| {
            phases.done(format!("{}: {what}", options.name), began);
            began = Instant::now();
        };
        let driver = Cluster::up(OWNER, &driver_options(options)?).await?;
        if !driver.is_used_again() {
            done("kind create cluster");
        }
        let release = driver.release().await?;
        print::progress(format_args!("{}: Kubernetes {release}", options.name));
        let cluster = Self {
            release,
            proxy: Proxy::on_this_machine(&network::host_address().await?)?,
            setup: Mutex::new(None),
            forward: Mutex::new(None),
            stopped_leader: Mutex::new(None),
            held_bindings: std::sync::Mutex::new(None),
            staged: Mutex::new(vec![None; driver.workers().len()]),
            driver,
        };
        let furnished = async {
            tokio::try_join!(
                cluster.driver.forget_early_calls(),
                cluster.let_pods_reach_the_proxy(),
                images.load(cluster.driver.name()),
            )?;
            done("kube-proxy and images into nodes");
            cluster.install(cluster.driver.is_used_again()).await
        };
        if let Err(error) = furnished.await.context("installing the suite") {
            return Err(cluster.with_evidence("installing", error).await);
        }
        done("suite installed");
        Ok(cluster)
    }

    /// The cluster itself, whatever is installed on it.
    pub fn driver(&self) -> &Cluster {
        &self.driver
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        self.driver.name()
    }

    /// The release of Kubernetes that its API server is of, such as `v1.37.2`.
    pub(super) fn release(&self) -> &str {
        &self.release
    }

    /// Deletes the cluster, unless it is to be kept, without holding up other clusters' work.
    ///
    /// # Errors
    /// The thread that deletes it has broken.
    pub async fn down(self) -> anyhow::Result<()> {
        self.driver.down().await
    }

    /// Deletes the cluster, also where it was to be kept: it is broken.
    pub(super) async fn discard(&mut self) -> anyhow::Result<()> {
        self.driver.discard().await
    }

    /// Leaves the cluster running, for whoever takes it down by name.
    pub(super) fn release_to_user(self) {
        self.driver.release_to_user();
    }

    pub(super) fn client(&self) -> Client {
        self.driver.client()
    }

    pub(super) fn workers(&self) -> &[String] {
        self.driver.workers()
    }

    /// The harness proxy between schedulers and the extender.
    pub(super) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// Whether what kube-scheduler says here is compared with the embedded cluster's texts: by the server's version.
    pub(super) fn scheduler_texts(&self) -> SchedulerTexts {
        SchedulerTexts::of_server(&self.release)
    }

    /// The version of the embedded cluster whose outcomes must be equal to those here.
    ///
    /// # Errors
    /// The server is older than every version that the embedded cluster can be.
    pub(super) fn embedded_version(&self) -> anyhow::Result<Version> {
        Ok(Version::of_server(&self.release)?)
    }
}

/// The default scheduler's configuration is a file, so that scenarios can give it an extender.
fn driver_options(options: &Options) -> anyhow::Result<kind_driver::Options> {
    let Options { name, workers, keep, node_image, images: _, feature_gates } = options.clone();
    let scheduler_configuration = Some(SchedulerConfiguration::of_default(Vec::new()).to_yaml()?);
    let mounts = Vec::new();
    Ok(kind_driver::Options {
        name,
        workers,
        keep,
        node_image,
        feature_gates,
        mounts,
        scheduler_configuration,
    })
}
