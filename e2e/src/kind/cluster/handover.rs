//! Whether the device plugin with `deploy/handover-patch.yml` sees, on a real kubelet and by the host's own `/proc`, the process of a pod
//! deleted by force that still has its device open, of whichever user. Called once in each run on kind, on the first cluster.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kind_driver::WAIT;
use kind_driver::status::phase;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use neuron_core::names::NEURON;
use neuron_e2e_engine::cluster::NAMESPACE;
use neuron_e2e_engine::scenario::NodeSpec;
use serde_json::json;

use super::KindCluster;
use super::install::{PLUGIN_DAEMON_SET, SYSTEM};
use crate::kind::WORKLOAD;

const PATCH: &str = include_str!("../../../../deploy/handover-patch.yml");
/// A type with one device.
const INSTANCE_TYPE: &str = "inf2.xlarge";
/// Label of this check's own pods.
const OURS: (&str, &str) = ("neuron-e2e/check", "handover");
/// How long a container may go on after its pod was deleted, in seconds. kubelet 1.37 gives one of a pod deleted by force three.
const GOES_ON: u32 = 20;

impl KindCluster {
    /// Deletes a pod by force whose container goes on, and has another ask for its device: the plugin waits for the process, and once it
    /// has ended the device is given.
    ///
    /// # Errors
    /// The plugin does not say that it waits for the process, cannot tell whether that has the device open, or nobody got the device.
    /// The pods stay then.
    pub(in crate::kind) async fn waits_for_processes(&self) -> anyhow::Result<()> {
        let plugin = format!("daemonset/{PLUGIN_DAEMON_SET}");
        self.become_node(0, &NodeSpec::of(INSTANCE_TYPE)).await?;
        self.driver.kubectl(&["-n", SYSTEM, "patch", &plugin, "--patch", PATCH], "").await?;
        let checked = self.device_is_waited_for(&plugin).await;
        let undone = self.driver.kubectl(&["-n", SYSTEM, "rollout", "undo", &plugin], "").await;
        checked?;
        undone?;
        self.driver.rolled_out(SYSTEM, &plugin).await?;
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        let of_check = ListParams::default().labels(&format!("{}={}", OURS.0, OURS.1));
        pods.delete_collection(&DeleteParams::default().grace_period(0), &of_check).await?;
        Ok(())
    }

    async fn device_is_waited_for(&self, plugin: &str) -> anyhow::Result<()> {
        let node = self.workers().first().context("the cluster has no worker")?;
        self.driver.rolled_out(SYSTEM, plugin).await?;
        self.serves(node, None).await?;
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        let at_once = DeleteParams::default().grace_period(0);
        let create = async |name: &str| {
            let pod = pod(name, node)?;
            pods.create(&PostParams::default(), &pod).await.with_context(|| format!("making pod {name}"))
        };
        let has_come_to = async |name: &str, phases: &[&str]| {
            WAIT.until(&format!("pod {name} to be {}", phases.join(" or ")), async || {
                Ok(phases.contains(&phase(&pods.get(name).await?)))
            })
            .await?;
            pods.get(name).await.with_context(|| format!("reading pod {name}"))
        };

        // Where the process has ended before the second pod is admitted, nobody has to wait for it: then once more.
        WAIT.until("the device plugin to wait for a process of a gone pod", async || {
            let first = create("check-goes-on").await?;
            has_come_to("check-goes-on", &["Running"]).await?;
            pods.delete("check-goes-on", &at_once).await?;
            create("check-waits").await?;
            has_come_to("check-waits", &["Running", "Failed"]).await?;
            pods.delete("check-waits", &at_once).await?;
            let uid = first.metadata.uid.as_deref().unwrap_or_default();
            let told = self.told_of(node, uid).await?;
            ensure!(
                told.contains("(neuron-workload)") && told.contains("has /dev/neuron0 open"),
                "the device plugin on {node} was to see that the process of pod check-goes-on, whose UID is {uid}, has /dev/neuron0 open; \
                 its log says of that pod: {told:?}"
            );
            Ok(true)
        })
        .await?;

        // A kubelet that gives a longer grace lets the plugin refuse some.
        WAIT.until("a pod to get the device once the process has ended", async || {
            create("check-in-time").await?;
            let pod = has_come_to("check-in-time", &["Running", "Failed"]).await?;
            if phase(&pod) == "Running" {
                return Ok(true);
            }
            pods.delete("check-in-time", &at_once).await?;
            Ok(false)
        })
        .await
    }

    /// What the plugin on the node has logged of the processes of a pod.
    async fn told_of(&self, node: &str, uid: &str) -> anyhow::Result<String> {
        let plugins: Api<Pod> = Api::namespaced(self.client(), SYSTEM);
        let mut told = Vec::new();
        for pod in self.plugin_pods(node).await? {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let log =
                plugins.logs(name, &LogParams::default()).await.with_context(|| format!("log of {name}"))?;
            told.extend(
                log.lines().filter(|line| line.contains("process ") && line.contains(uid)).map(str::to_owned),
            );
        }
        Ok(told.join("\n"))
    }
}

/// A pod for this node, which no scheduler places, with the node's only device.
fn pod(name: &str, node: &str) -> anyhow::Result<Pod> {
    let pod = json!({
        "metadata": {"name": name, "labels": {OURS.0: OURS.1}},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "main",
                "image": WORKLOAD,
                "resources": {"limits": {NEURON: "1"}},
                "lifecycle": {"preStop": {"sleep": {"seconds": GOES_ON}}},
            }],
        },
    });
    Ok(serde_json::from_value(pod)?)
}
