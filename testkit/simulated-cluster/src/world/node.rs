//! A node: its kubelet, and what is kept of it beside its files.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use fake_cluster::Kubelet;
use fake_cluster::kubelet::{FreeChoices, KubeletConfig};
use futures::FutureExt as _;
use simulator::Process;
use tokio::time::sleep;

use super::World;
use super::parts::PartStart;
use crate::api::Whose;
use crate::observer::{Violation, without_numbers};
use crate::plan::{NodePlan, Place, node_name};

/// kubelet's folder on every node.
pub(crate) const KUBELET_DIR: &str = "/var/lib/kubelet";
/// Where kubelet keeps its containers: a node that loses its power has none any more.
pub(crate) const CONTAINERS: &str = "/var/lib/kubelet/containers.json";
/// How long kubelet waits before it is started again where it could not start.
const RESTART: Duration = Duration::from_secs(1);

/// A node.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) plan: NodePlan,
    /// How many machines it has had before this one: a fault of one is none of the next.
    pub(super) replaced: AtomicU64,
}

impl Node {
    pub(super) fn new(place: usize, plan: NodePlan) -> Self {
        Self { name: node_name(place), plan, replaced: AtomicU64::new(0) }
    }
}

impl World {
    /// How a node's kubelet is started.
    pub(super) fn kubelet(self: &Arc<Self>, place: usize) -> PartStart {
        let world = Arc::downgrade(self);
        Arc::new(move |process: Process, _: Place, _| {
            let Some(world) = world.upgrade() else { return std::future::pending().boxed() };
            async move { world.run_kubelet(&process, place).await }.boxed()
        })
    }

    async fn run_kubelet(&self, process: &Process, place: usize) -> anyhow::Result<()> {
        let Some(node) = self.nodes.get(place) else { return Ok(()) };
        let client = self.client(process, Place::Node(place), Whose::Cluster);
        let free_choices = if self.settings.adversarial {
            FreeChoices::Adversarial
        } else {
            FreeChoices::Seeded(process.system().random())
        };
        let config = KubeletConfig {
            free_choices,
            labels: self.suite.node_labels(&node.plan),
            status_period: Duration::from_secs(self.settings.status_seconds.into()),
            heartbeats: true,
            ..KubeletConfig::new(&node.name, KUBELET_DIR)
        };
        let runtime = self.watcher.runtime(self.host(Place::Node(place)));
        let disturbs = |at| self.watcher.disturbs(format!("kubelet/{}", node.name), at);
        loop {
            // It is under way until the API server has told it its pods.
            disturbs(Duration::MAX);
            self.kubelet_reads_checkpoint(place);
            let (client, runtime) = (client.clone(), Arc::clone(&runtime));
            match Kubelet::start(&process.system(), client, &self.api, config.clone(), runtime).await {
                Ok(kubelet) => {
                    disturbs(self.simulation.elapsed());
                    let panicked = kubelet.panicked();
                    self.watcher.kubelet_starts(&node.name, kubelet);
                    // Nothing else ends it but what ends its process.
                    let reason = panicked.await;
                    let cause = format!("kubelet panics: {}", without_numbers(&reason));
                    let text = format!("{}: {reason}", node.name);
                    self.watcher.violation(Violation { invariant: "runs", cause, text, pods: Vec::new() });
                }
                // systemd starts it again.
                Err(error) => tracing::warn!(node = node.name, reason = %error, "kubelet does not start"),
            }
            sleep(RESTART).await;
        }
    }
}
