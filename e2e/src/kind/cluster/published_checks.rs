//! Whether the checks that AWS publishes work against what is deployed: they look for lines in the logs of the extension and of my-scheduler
//! (docs/reference/neuron.md §3.3). Called once in each run on kind, on the first cluster.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kind_driver::WAIT;
use kind_driver::status::phase;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use neuron_core::names::NEURONCORE;
use neuron_e2e_engine::cluster::NAMESPACE;
use neuron_e2e_engine::scenario::NodeSpec;
use serde_json::json;

use super::KindCluster;
use super::install::SYSTEM;
use super::scheduling::{MY_PODS, Scheduling, Setup};
use crate::kind::WORKLOAD;

/// A type with two cores.
const INSTANCE_TYPE: &str = "inf2.xlarge";
/// The pod that is placed.
const POD: &str = "check-published";

impl KindCluster {
    /// Places a pod with both cores of a node as deployed, and looks for the published lines about it.
    ///
    /// # Errors
    /// A line is missing. The pod stays then.
    pub(in crate::kind) async fn logs_published_lines(&self) -> anyhow::Result<()> {
        let node = self.workers().first().context("the cluster has no worker")?;
        self.become_node(0, &NodeSpec::of(INSTANCE_TYPE)).await?;
        self.schedule_by(Setup::deployed(Scheduling::MyScheduler)).await?;
        self.serves(node, None).await?;
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        pods.create(&PostParams::default(), &pod(node)?)
            .await
            .with_context(|| format!("making pod {POD}"))?;
        WAIT.until(&format!("pod {POD} to run"), async || Ok(phase(&pods.get(POD).await?) == "Running"))
            .await?;

        let extender = self.leader_other_than(None).await?;
        let of_extender = [
            format!("POD {POD} fits in Node:{node}"),
            format!("Allocated ids for POD {POD} are: 0,1"),
            format!("Try to bind pod {POD} in {NAMESPACE} namespace to node {node} "),
        ];
        self.logs_all(&extender, &of_extender).await?;
        let schedulers: Api<Pod> = Api::namespaced(self.client(), SYSTEM);
        let schedulers = schedulers.list(&ListParams::default().labels(MY_PODS)).await?.items;
        let scheduler = schedulers.into_iter().find(|pod| phase(pod) == "Running");
        let scheduler = scheduler.context("no my-scheduler runs")?;
        let bound = format!("\"Successfully bound pod to node\" pod=\"{NAMESPACE}/{POD}\"");
        self.logs_all(&scheduler, &[bound]).await?;
        pods.delete(POD, &DeleteParams::default().grace_period(0)).await?;
        Ok(())
    }

    /// Waits until each of the lines stands in the pod's log: it is written beside what it tells of.
    async fn logs_all(&self, pod: &Pod, lines: &[String]) -> anyhow::Result<()> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client(), SYSTEM);
        WAIT.until(&format!("the published lines in the log of {name}"), async || {
            let log = pods.logs(name, &LogParams::default()).await?;
            let missing: Vec<_> = lines.iter().filter(|line| !log.contains(&***line)).collect();
            ensure!(missing.is_empty(), "the log of {name} lacks {missing:?}");
            Ok(true)
        })
        .await
    }
}

/// A pod for this node, by the deployed scheduler.
fn pod(node: &str) -> anyhow::Result<Pod> {
    let pod = json!({
        "metadata": {"name": POD},
        "spec": {
            "schedulerName": Scheduling::MyScheduler.scheduler_name(),
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [
                {"name": "main", "image": WORKLOAD, "resources": {"limits": {NEURONCORE: "2"}}},
            ],
        },
    });
    Ok(serde_json::from_value(pod)?)
}
