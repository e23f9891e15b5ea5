//! The cluster on kind: a real control plane and real kubelets, with the suite installed as its pods from `deploy/`.
//! One cluster serves many scenarios, each as a stage; [`session`] runs them.

mod access;
pub(crate) mod bare;
pub mod config;
pub mod conformance;
pub mod doctor;
pub(crate) mod evidence;
mod faults;
pub mod fuzz;
mod guard;
mod hardware;
mod images;
mod install;
mod jobs;
mod kube_proxy;
mod kubeadm;
mod nodes;
mod phases;
mod pipe;
pub mod pool;
mod program;
mod rights;
mod scheduling;
pub mod session;
mod stage;
mod stand_in;
pub mod standing;
mod tls;
pub(crate) mod wait;

use std::path::PathBuf;

use anyhow::Context as _;
use futures::future::try_join_all;
use kube::Client;
use tokio::sync::{Mutex, OnceCell, Semaphore};
use tokio::time::Instant;

use access::Access;
use config::KindConfig;
use guard::Guard;
pub use images::WORKLOAD;
use kubeadm::SCHEDULER_FILE;
use neuron_e2e_engine::extender_proxy::Proxy;
use neuron_e2e_engine::outcome::SchedulerTexts;
use neuron_e2e_engine::scenario::NodeSpec;
use neuron_e2e_engine::scheduler_configuration::SchedulerConfiguration;
pub(crate) use phases::Phase;
use phases::Phases;
pub use scheduling::Scheduling;
use scheduling::{Forward, Route};

/// Times a cluster is tried to be made. kind waits 30 s for a node that unpacks its images first: too short for a slow
/// disk that has to be read (seen twice in a row, once).
const TRIES: usize = 4;

/// Whose turn it is to be made.
static CREATING: Semaphore = Semaphore::const_new(1);

/// How a cluster is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's name; an earlier one of that name is replaced, or used again with `keep`.
    pub name: String,
    /// Number of workers, 1 to 3.
    pub workers: usize,
    /// Leave the cluster running.
    pub keep: bool,
    /// Node image; the one on this machine, else kind's own, if not given.
    pub node_image: Option<String>,
    /// Use images that are there without building them again.
    pub skip_images: bool,
    /// Feature gates of Kubernetes that are on beside its own choice.
    pub feature_gates: &'static [&'static str],
}

/// A running cluster with the suite installed.
pub struct KindCluster {
    name: String,
    client: Client,
    access: Access,
    control_plane: String,
    workers: Vec<String>,
    /// The workers, then the control plane.
    nodes: Vec<String>,
    /// The host's folder that the default scheduler reads its configuration from.
    scheduler_folder: PathBuf,
    proxy: Proxy,
    /// How the schedulers are configured now; none until a scenario is staged.
    route: Mutex<Option<(Scheduling, Route)>>,
    forward: Mutex<Option<Forward>>,
    /// What hardware each worker has now; none where it must be made anew.
    staged: Mutex<Vec<Option<NodeSpec>>>,
    /// Whether its kube-scheduler's texts are compared; asked once.
    texts: OnceCell<SchedulerTexts>,
    // Last: deletes the cluster when everything above is gone.
    guard: Guard,
}

impl KindCluster {
    /// Makes the cluster and installs the suite; says on standard error how long each phase took.
    pub async fn up(options: &Options) -> anyhow::Result<Self> {
        let phases = Phases::begin();
        images::build(options.skip_images).await?;
        phases.reached("images");
        let cluster = Self::up_in(options, &phases).await?;
        let began = Instant::now();
        if let Err(error) = cluster.installed().await.context("installing the suite") {
            return Err(cluster.with_evidence("installing", error).await);
        }
        phases.done(format!("{}: suite serves", options.name), began);
        Ok(cluster)
    }

    /// As [`Self::up`], its images built already, as one of several clusters whose phases are told together. Nothing is
    /// waited for: each scenario waits for what it needs.
    async fn up_in(options: &Options, phases: &Phases) -> anyhow::Result<Self> {
        let mut began = Instant::now();
        let mut done = |what: &str| {
            phases.done(format!("{}: {what}", options.name), began);
            began = Instant::now();
        };
        let name = options.name.clone();
        let guard = Guard::new(&name, options.keep)?;
        let (_, earlier) = nodes_of(&name).await?;
        let used_again = options.keep && guard.is_complete() && earlier.len() >= options.workers;
        if !used_again {
            guard.begin_anew().await.context("deleting what an earlier run left")?;
            Self::create(options, &guard).await?;
            done("kind create cluster");
        }
        let kubeconfig = guard.kubeconfig();
        if used_again {
            let export = ["export", "kubeconfig", "--name", &name, "--kubeconfig", &kubeconfig];
            program::output("kind", &export).await?;
        }
        let access = Access { kubeconfig };
        let (control_planes, workers) = nodes_of(&name).await?;
        let control_plane = control_planes.into_iter().next().context("a cluster without control plane")?;
        let nodes: Vec<String> = workers.iter().chain([&control_plane]).cloned().collect();
        if used_again {
            // A run that was killed may have left one frozen.
            try_join_all(nodes.iter().map(|node| nodes::thaw(node))).await?;
        }
        let cluster = Self {
            client: access.client().await?,
            access,
            control_plane,
            nodes,
            scheduler_folder: guard.scheduler_folder(),
            proxy: Proxy::start_at(&gateway().await?).await?,
            route: Mutex::new(None),
            forward: Mutex::new(None),
            staged: Mutex::new(vec![None; workers.len()]),
            workers,
            name,
            texts: OnceCell::new(),
            guard,
        };
        let furnished = async {
            tokio::try_join!(
                cluster.forget_early_calls(),
                cluster.let_pods_reach_the_proxy(),
                images::load(&cluster.name),
            )?;
            done("kube-proxy and images into nodes");
            cluster.install(used_again).await.context("installing the suite")
        };
        if let Err(error) = furnished.await {
            return Err(cluster.with_evidence("installing", error).await);
        }
        done("suite installed");
        Ok(cluster)
    }

    /// The cluster's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Deletes the cluster, unless it is to be kept, without holding up other clusters' work.
    pub async fn down(self) -> anyhow::Result<()> {
        tokio::task::spawn_blocking(move || drop(self)).await.context("deleting the cluster")
    }

    async fn create(options: &Options, guard: &Guard) -> anyhow::Result<()> {
        let image = doctor::node_image(options.node_image.as_deref()).await;
        let folder = guard.scheduler_folder();
        let path = folder.join(SCHEDULER_FILE);
        tokio::fs::write(&path, SchedulerConfiguration::of_default(Vec::new()).to_yaml()?)
            .await
            .with_context(|| format!("writing {}", path.display()))?;
        let config =
            KindConfig::new(options.workers, &folder)?.with_feature_gates(options.feature_gates).to_yaml()?;
        let kubeconfig = guard.kubeconfig();
        let arguments = [
            "create",
            "cluster",
            "--name",
            &options.name,
            "--image",
            &image,
            "--kubeconfig",
            &kubeconfig,
            "--config",
            "-",
        ];
        // One after the other: a machine that is busy with the next one's images and containers lets kind's own short
        // waits for the first one run out. Other things may keep it busy, so several times.
        let _turn = CREATING.acquire().await?;
        for time in 1.. {
            match program::output_from("kind", &arguments, &config).await {
                Err(error) if time < TRIES => {
                    eprintln!("cluster {} could not be made, try {time} of {TRIES}: {error:#}", options.name);
                    program::output("kind", &["delete", "cluster", "--name", &options.name]).await?;
                }
                Err(error) => return Err(error),
                Ok(_) => break,
            }
        }
        guard.set_complete()
    }

    /// Whether what kube-scheduler says here is compared with the embedded cluster's texts: by the server's version.
    async fn scheduler_texts(&self) -> anyhow::Result<SchedulerTexts> {
        let ask = async || {
            let version = self.client.apiserver_version().await.context("asking for the server's version")?;
            anyhow::Ok(SchedulerTexts::of_version(&version.major, &version.minor))
        };
        self.texts.get_or_try_init(ask).await.copied()
    }

    /// Runs kubectl on this cluster, with this text on its standard input.
    async fn kubectl(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        self.access.kubectl(arguments, input).await
    }
}

/// The cluster's control planes and its workers; neither where there is no such cluster.
async fn nodes_of(name: &str) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let nodes = program::output("kind", &["get", "nodes", "--name", name]).await?;
    let (control_planes, mut workers): (Vec<String>, Vec<String>) =
        nodes.lines().map(str::to_owned).partition(|node| node.ends_with("-control-plane"));
    workers.sort();
    Ok((control_planes, workers))
}

/// The host's address in the network of kind's nodes.
async fn gateway() -> anyhow::Result<String> {
    let format = "{{range .IPAM.Config}}{{.Gateway}} {{end}}";
    let gateways = program::output("docker", &["network", "inspect", "kind", "--format", format]).await?;
    let address = gateways.split_whitespace().find(|text| text.parse::<std::net::Ipv4Addr>().is_ok());
    address.map(str::to_owned).context("Docker's network `kind` has no IPv4 gateway")
}
