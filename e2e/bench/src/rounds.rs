//! The measurement: rounds, each trying every variant once on the same nodes with the same number of waiting pods.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use kind_driver::phases::Phase;
use kind_driver::{Cluster, Options, Owner, network};
use neuron_e2e_engine::scheduler_configuration::SchedulerConfiguration;
use tokio::net::TcpListener;

use super::certificate::Certificate;
use super::garbage;
use super::machine::Machine;
use super::nodes::Kwok;
use super::pods::{Pods, Took};
use super::program::Scheduler;
use super::programs::ProgramTimes;
use super::report::{Measured, Report};
use super::serve::Process;
use super::variant::{Extender, Form, Variant};

/// Share of the processors' time, from 0 to 1, that other machines may have during a run that counts.
const STOLEN: f64 = 0.02;
/// How often a run during which they had more is made anew; then it counts all the same.
const ANEW: usize = 3;

/// How much is measured.
#[derive(Clone, Debug)]
pub(super) struct Size {
    /// Number of nodes.
    pub(super) nodes: usize,
    /// Number of pods that wait.
    pub(super) pods: usize,
    /// How often every variant is tried.
    pub(super) rounds: usize,
    /// What an extender is sent of nodes; both if not given.
    pub(super) form: Option<Form>,
    /// The variants that are tried; all of the form if empty.
    pub(super) only: Vec<Variant>,
}

/// Measures on a cluster that is made for it and is gone afterwards.
pub(super) async fn measure(
    owner: Owner,
    name: &str,
    node_image: Option<String>,
    size: Size,
) -> anyhow::Result<Report> {
    let mut machine = Machine::look();
    let mut phase = Phase::begin();
    let cluster = cluster(owner, name, node_image).await?;
    phase.done("kind create cluster");
    let folder = cluster.scheduler_folder();
    let _kwok = Kwok::start(&cluster.client(), cluster.kubeconfig(), &folder, size.nodes).await?;
    phase.done("nodes");
    let scheduler = Scheduler::of(&cluster).await?;
    machine.scheduler = scheduler.image().to_owned();
    let address = free_address(&network::host_address().await?).await?;
    let bench = Bench {
        pods: Pods::new(&cluster.client(), size.pods),
        address,
        certificate: Certificate::make(address.ip(), &folder)?,
        cluster: &cluster,
        scheduler,
        size: &size,
    };
    // The first run of all meets cold caches, so it does not count.
    bench.run(Variant::NoExtender).await.context("before the first round")?;
    phase.done("first run, which does not count");
    let mut measured = Vec::new();
    for round in 0..size.rounds {
        for variant in Variant::order(round, size.form, &size.only) {
            let seen = bench.run_undisturbed(variant).await;
            let seen = seen.with_context(|| format!("round {}, {}", round + 1, variant.name()))?;
            let one = seen.measured(round + 1, variant);
            eprintln!("{:6.1} pods/s  round {}, {}", one.pods_per_second, one.round, variant.name());
            measured.push(one);
        }
        phase.done(&format!("round {}", round + 1));
    }
    Ok(Report::new(machine, &size, measured))
}

/// A control plane alone, in place of an earlier one of that name, dialled without a program of Docker's in between.
async fn cluster(owner: Owner, name: &str, node_image: Option<String>) -> anyhow::Result<Cluster> {
    let scheduler_configuration = Some(SchedulerConfiguration::of_default(Vec::new()).to_yaml()?);
    let options = Options { node_image, scheduler_configuration, ..Options::new(name) };
    let mut cluster = Cluster::up(owner, &options).await?;
    cluster.dial_directly().await.context("the way to the API server")?;
    Ok(cluster)
}

struct Bench<'a> {
    cluster: &'a Cluster,
    scheduler: Scheduler<'a>,
    pods: Pods,
    /// Where the extenders listen, one after the other.
    address: SocketAddr,
    certificate: Certificate,
    size: &'a Size,
}

/// What one run of one variant took.
struct RunResult {
    took: Took,
    pods: usize,
    extender_seconds: Option<f64>,
    algorithm_seconds: Option<f64>,
    program_seconds: BTreeMap<&'static str, f64>,
}

impl Bench<'_> {
    /// One run of one variant that other machines on the same hardware left the processors for, if there is one.
    async fn run_undisturbed(&self, variant: Variant) -> anyhow::Result<RunResult> {
        let mut seen = self.run(variant).await?;
        for _ in 0..ANEW {
            let Some(stolen) = seen.took.stolen.filter(|stolen| *stolen > STOLEN) else { break };
            let percent = stolen * 100.0;
            eprintln!("other machines had {percent:.0} % of the processors: {} anew", variant.name());
            seen = self.run(variant).await?;
        }
        Ok(seen)
    }

    /// One run of one variant; its pods are gone afterwards.
    async fn run(&self, variant: Variant) -> anyhow::Result<RunResult> {
        self.pods.create().await?;
        let extender = match variant.extender() {
            None => None,
            Some(extender) => {
                let kubeconfig = self.cluster.kubeconfig();
                let at = (self.address, variant.is_https().then_some(&self.certificate));
                Some(Process::start(variant, extender, at, kubeconfig, &self.log_of(extender)).await?)
            }
        };
        let before = extender.as_ref().and_then(Process::processor_seconds);
        let watch = self.pods.watch().await?;
        garbage::collect(&self.cluster.client()).await?;
        let configuration = variant.configuration(&self.address.to_string(), self.certificate.pem())?;
        let programs = ProgramTimes::now();
        self.scheduler.start(&configuration, variant.logs_as_deployed()).await?;
        let took = match watch.all_bound().await {
            Ok(took) => took,
            Err(error) => {
                let words = self.scheduler.last_words().await;
                return Err(error.context(format!("kube-scheduler's last words: {words}")));
            }
        };
        let after = extender.as_ref().and_then(Process::processor_seconds);
        let program_seconds = ProgramTimes::now().since(&programs);
        if variant.extender() == Some(Extender::Ours) {
            self.pods.check_records().await.context("what the extender recorded")?;
        }
        let algorithm_seconds = self.scheduler.algorithm_seconds().await;
        let algorithm_seconds =
            algorithm_seconds.inspect_err(|error| eprintln!("kube-scheduler's metrics: {error:#}")).ok();
        self.scheduler.stop().await?;
        if let Some(extender) = extender {
            extender.stop().await?;
        }
        self.pods.remove().await?;
        let extender_seconds = before.zip(after).map(|(before, after)| after - before);
        Ok(RunResult { took, pods: self.size.pods, extender_seconds, algorithm_seconds, program_seconds })
    }

    /// Goes with the cluster's folder.
    fn log_of(&self, extender: Extender) -> PathBuf {
        self.cluster.scheduler_folder().join(format!("{extender:?}.log").to_lowercase())
    }
}

impl RunResult {
    fn measured(&self, round: usize, variant: Variant) -> Measured {
        let pods = self.pods as f64;
        Measured {
            round,
            variant,
            // The first pod starts the clock.
            pods_per_second: (pods - 1.0) / self.took.time.as_secs_f64().max(f64::EPSILON),
            stolen: self.took.stolen,
            pace_ms: self.took.pace.map(|pace| pace.as_secs_f64() * 1000.0),
            extender_ms_per_pod: self.extender_seconds.map(|seconds| seconds * 1000.0 / pods),
            algorithm_ms_per_pod: self.algorithm_seconds.map(|seconds| seconds * 1000.0 / pods),
            program_ms_per_pod: (self.program_seconds.iter())
                .map(|(program, seconds)| (*program, seconds * 1000.0 / pods))
                .collect(),
        }
    }
}

/// An address of the host that the cluster's nodes reach, with a port nobody listens on.
async fn free_address(host: &str) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((host, 0)).await.with_context(|| format!("listening on {host}"))?;
    Ok(listener.local_addr()?)
}
