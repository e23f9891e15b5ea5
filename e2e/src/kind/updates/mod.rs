//! The device plugin updated again and again while pods are placed: for how long kubelet offers less than the node has, and
//! which pods fail meanwhile. Called by `neuron-e2e bench plugin-update`.

mod gaps;
mod placing;

use std::time::Duration;

use anyhow::Context as _;
use kind_driver::phases::Phases;
use kind_driver::pod_resources::Offers;
use kind_driver::status::Amounts;
use kind_driver::{unless_ended, with_nothing_left};
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_e2e_engine::scenario::NodeSpec;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

pub use self::gaps::GapSummary;
use self::gaps::Gaps;
pub use self::placing::Placed;
use super::cluster::install::PLUGIN_DAEMON_SET;
use super::cluster::scheduling::{Scheduling, Setup};
use super::{KindCluster, OWNER, Options, SYSTEM, needs};
use crate::report::print;

/// Time between two looks at what kubelet offers.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two looks at what the API server says of it.
const LOOK_AT_NODE: Duration = Duration::from_millis(200);

/// What came of the updates.
#[derive(Clone, Debug, Serialize)]
pub struct Updates {
    /// How many there were.
    pub updates: usize,
    /// The release of Kubernetes.
    pub kubernetes: String,
    /// Seconds of one, on average, until the new pod was ready and the old one was gone.
    pub seconds_each: f64,
    /// Gaps in what kubelet offered, by its own answers on the node.
    pub on_node: GapSummary,
    /// The same by the Node's allocatable, which kubelet writes up to ten seconds later.
    pub by_api: GapSummary,
    /// The pods that were placed meanwhile.
    pub pods: Placed,
}

/// Longest gap of an update that is none too many.
const LONGEST_GAP: f64 = 2.0;
/// What kubelet says of a pod that it is asked to admit in a gap.
const IN_A_GAP: &str = "no healthy devices present; cannot allocate unhealthy devices";

impl Updates {
    /// What must not be; empty if all is well.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        if self.on_node.longest > LONGEST_GAP || self.on_node.open {
            failures.push(format!(
                "kubelet offered less for {:.2} s, at most {LONGEST_GAP} s may be",
                self.on_node.longest
            ));
        }
        if self.pods.ran == 0 {
            failures.push("no pod ran".to_owned());
        }
        let others = self.pods.failed.keys().filter(|why| !why.contains(IN_A_GAP));
        failures.extend(others.map(|why| format!("a pod failed for something else than a gap: {why}")));
        failures
    }
}

/// Updates the plugin so often on a cluster of one node of this type, or says what this machine lacks.
///
/// # Errors
/// A signal ended it, the cluster could not be had, or an update did not come to its end.
pub async fn measure(
    options: &Options,
    instance_type: &str,
    updates: usize,
) -> anyhow::Result<Result<Updates, String>> {
    if let Some(why) = needs::missing(options.node_image.as_deref(), &options.images, 1).await {
        return Ok(Err(why));
    }
    let mut measured = unless_ended(on_cluster(options, instance_type, updates)).await;
    if !options.keep {
        measured = with_nothing_left(measured, OWNER.left_behind(&options.name)).await;
    }
    measured.map(Ok)
}

async fn on_cluster(options: &Options, instance_type: &str, updates: usize) -> anyhow::Result<Updates> {
    let phases = Phases::begin();
    let images = options.images.ready().await?;
    phases.reached("images");
    let cluster = KindCluster::up(options, &images, &phases).await?;
    let spec = NodeSpec::of(instance_type);
    let prepared = async {
        let scheduled = cluster.schedule_by(Setup::deployed(Scheduling::MyScheduler));
        tokio::try_join!(scheduled, cluster.become_node(0, &spec)).map(drop)
    };
    if let Err(error) = prepared.await.context("installing the suite") {
        return Err(cluster.with_evidence("installing", error).await);
    }
    phases.reached("devices advertised");
    let updated = update(&cluster, updates).await;
    let result = match updated {
        Ok(updates) => Ok(updates),
        Err(error) => Err(cluster.with_evidence("updates", error).await),
    };
    cluster.down().await?;
    result
}

/// Updates the plugin, and looks and places meanwhile.
async fn update(cluster: &KindCluster, updates: usize) -> anyhow::Result<Updates> {
    let node = cluster.workers().first().context("the cluster has no worker")?;
    let full = Offers::of(node).await?.counts([NEURON, NEURONCORE]).await?.to_vec();
    let (done, is_over) = watch::channel(false);
    let began = Instant::now();
    let updating = async {
        let result = roll_out(cluster, updates).await;
        done.send_replace(true);
        result.map(|()| began.elapsed())
    };
    let (took, on_node, by_api, pods) = tokio::try_join!(
        updating,
        look_at_kubelet(node, Gaps::of(full.clone()), is_over.clone()),
        look_at_api(cluster, node, Gaps::of(full), is_over.clone()),
        placing::place(cluster.client(), is_over),
    )?;
    Ok(Updates {
        updates,
        kubernetes: cluster.release().to_owned(),
        seconds_each: took.as_secs_f64() / f64::from(u32::try_from(updates.max(1))?),
        on_node: on_node.summary(Instant::now()),
        by_api: by_api.summary(Instant::now()),
        pods,
    })
}

/// Restarts the plugin's DaemonSet this many times, one rollout after the other.
async fn roll_out(cluster: &KindCluster, updates: usize) -> anyhow::Result<()> {
    let daemon_set = format!("daemonset/{PLUGIN_DAEMON_SET}");
    for update in 1..=updates {
        cluster.driver().kubectl(&["-n", SYSTEM, "rollout", "restart", &daemon_set], "").await?;
        cluster.driver().rolled_out(SYSTEM, &daemon_set).await?;
        print::progress(format_args!("{update} of {updates} updates"));
    }
    Ok(())
}

async fn look_at_kubelet(node: &str, mut gaps: Gaps, is_over: watch::Receiver<bool>) -> anyhow::Result<Gaps> {
    let mut kubelet = Offers::of(node).await?;
    while !*is_over.borrow() {
        let offered = kubelet.counts([NEURON, NEURONCORE]).await?;
        gaps.look(&offered, Instant::now());
        sleep(LOOK).await;
    }
    Ok(gaps)
}

async fn look_at_api(
    cluster: &KindCluster,
    node: &str,
    mut gaps: Gaps,
    is_over: watch::Receiver<bool>,
) -> anyhow::Result<Gaps> {
    while !*is_over.borrow() {
        let object = cluster.driver().node(node).await?;
        let offered = [NEURON, NEURONCORE].map(|resource| {
            let amount = Amounts::on(&object, resource).allocatable;
            amount.and_then(|amount| usize::try_from(amount).ok()).unwrap_or(0)
        });
        gaps.look(&offered, Instant::now());
        sleep(LOOK_AT_NODE).await;
    }
    Ok(gaps)
}
