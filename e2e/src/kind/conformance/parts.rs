//! What a case does to the node: kubelet, the device plugin and containers stopped, killed and started; and what
//! kubelet offers meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use neuron_core::names;
use serde_json::json;

use super::room::Room;
use crate::kind::install::SYSTEM;
use crate::kind::nodes::{PLUGIN_LABEL, is_ready};
use crate::kind::stand_in::{Fails, StandIn};
use crate::kind::wait::{LONGEST, until, within};
use neuron_e2e_engine::scenario::DeviceState;

/// The plugin's pods, by their label `name`.
const PLUGIN: &str = "neuron-device-plugin-ds";
/// NeuronCores of one device of the types that these cases use.
const CORES: i64 = 2;

impl Room<'_> {
    /// Stops kubelet; containers go on.
    pub(super) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        self.by("stopping the kubelet");
        self.kubelet_stopped.store(true, Ordering::SeqCst);
        self.cluster.stop_kubelet(self.node_name()?).await
    }

    /// Starts kubelet and waits until the node is ready and offers its devices again.
    pub(super) async fn start_kubelet(&self) -> anyhow::Result<()> {
        self.by("starting the kubelet");
        self.kubelet_stopped.store(false, Ordering::SeqCst);
        self.cluster.start_kubelet(self.node_name()?).await
    }

    /// Starts kubelet and waits until the node is ready, without a plugin that registers.
    pub(super) async fn start_kubelet_alone(&self) -> anyhow::Result<()> {
        self.by("starting the kubelet");
        self.kubelet_stopped.store(false, Ordering::SeqCst);
        self.cluster.begin_kubelet(self.node_name()?).await?;
        Ok(())
    }

    /// The plugin's pod.
    pub(super) async fn plugin(&self) -> anyhow::Result<Pod> {
        let pods = self.cluster.pods_on(self.node_name()?, PLUGIN).await?;
        pods.into_iter().find(is_ready).context("no pod of the device plugin is ready")
    }

    /// Deletes the plugin's pod at once and waits until another has registered and everything is offered.
    pub(super) async fn replace_plugin(&self) -> anyhow::Result<()> {
        self.by("deleting the plugin pod, so that another registers");
        let (node, before, began) = (self.node_name()?, self.plugin().await?, Timestamp::now());
        let name = before.metadata.name.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), SYSTEM);
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await.context("deleting the plugin")?;
        until("another plugin to be ready", || async {
            let now = self.cluster.pods_on(node, PLUGIN).await?;
            Ok(now.iter().any(|pod| is_ready(pod) && pod.metadata.uid != before.metadata.uid))
        })
        .await?;
        self.cluster.serves(node, Some(began)).await
    }

    /// Lets the plugin's pod be deleted while kubelet is away, so that kubelet does not start it when it is back.
    pub(super) async fn keep_plugin_away(&self) -> anyhow::Result<()> {
        self.by("keeping the device plugin away");
        let node = self.node_name()?;
        let off = json!({"metadata": {"labels": {PLUGIN_LABEL: "off"}}});
        self.cluster.patch_node(node, &off).await?;
        until("the plugin's pod to be deleted", || async {
            let pods = self.cluster.pods_on(node, PLUGIN).await?;
            Ok(pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()))
        })
        .await
    }

    /// How often the plugin's container has restarted.
    pub(super) async fn plugin_restarts(&self) -> anyhow::Result<i32> {
        let status = self.plugin().await?.status.unwrap_or_default();
        Ok(status.container_statuses.into_iter().flatten().map(|status| status.restart_count).sum())
    }

    /// Puts a device of the node's machine in another state.
    pub(super) async fn becomes(&self, device: u8, state: DeviceState) -> anyhow::Result<()> {
        self.by(format!("device {device} becomes {state:?}"));
        self.cluster.set_device(0, device, state).await
    }

    /// Sends the plugin's process a signal, such as `SIGKILL`.
    pub(super) async fn signal_plugin(&self, plugin: &Pod, signal: &str) -> anyhow::Result<()> {
        let statuses = plugin.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let id = statuses.into_iter().find_map(|status| status.container_id.as_deref());
        self.signal(id.context("the plugin's container has no id")?, signal).await
    }

    /// Sends a container's process a signal.
    async fn signal(&self, container_id: &str, signal: &str) -> anyhow::Result<()> {
        let id = container_id.rsplit('/').next().unwrap_or(container_id);
        let command = format!("ctr -n k8s.io tasks kill --signal {signal} {id}");
        self.cluster.in_node(self.node_name()?, &command).await?;
        Ok(())
    }

    /// Kills a container and waits until kubelet has started it again.
    pub(super) async fn restart_container(&self, pod: &str, container: &str) -> anyhow::Result<i32> {
        self.by(format!("killing container {pod}/{container}, and waiting for it to restart"));
        let before = self.status(pod, container).await?;
        let id = before.container_id.clone().context("the container has no id")?;
        self.signal(&id, "SIGKILL").await?;
        until(&format!("container {pod}/{container} to restart"), || async {
            let now = self.status(pod, container).await?;
            let runs = now.state.is_some_and(|state| state.running.is_some());
            Ok(runs && now.restart_count > before.restart_count)
        })
        .await?;
        Ok(self.status(pod, container).await?.restart_count)
    }

    /// Kills every container on the node, as a reboot does; with `except` all but those of this pod.
    pub(super) async fn kill_containers(&self, except: Option<&Pod>) -> anyhow::Result<()> {
        self.by("stopping all the local containers");
        let spared = except.and_then(|pod| pod.metadata.uid.as_deref());
        let filter = spared.map(|uid| format!("'labels.\"io.kubernetes.pod.uid\"!={uid}'"));
        let running = format!(
            "set -eu -o pipefail; all=$(ctr -n k8s.io containers ls -q {}); \
             running=$(ctr -n k8s.io tasks ls | awk '$3 == \"RUNNING\" {{print $1}}'); \
             comm -12 <(sort <<< \"$all\") <(sort <<< \"$running\")",
            filter.unwrap_or_default()
        );
        let node = self.node_name()?;
        for id in self.cluster.in_node(node, &running).await?.split_whitespace() {
            // Some end with others: a container with its sandbox.
            self.cluster.in_node(node, &format!("ctr -n k8s.io tasks kill -s SIGKILL {id} || :")).await?;
        }
        until("the containers to end", || async {
            Ok(self.cluster.in_node(node, &running).await?.trim().is_empty())
        })
        .await
    }

    /// Whether containerd still has a container of this id on the node.
    pub(super) async fn has_container(&self, container_id: &str) -> anyhow::Result<bool> {
        let id = container_id.rsplit('/').next().unwrap_or(container_id);
        let all = self.cluster.in_node(self.node_name()?, "ctr -n k8s.io containers ls -q").await?;
        Ok(all.lines().any(|line| line == id))
    }

    /// Waits until kubelet offers this many devices, of this many it has, and the NeuronCores that go with them.
    pub(super) async fn offers(&self, allocatable: i64, capacity: i64) -> anyhow::Result<()> {
        self.offers_within(LONGEST, allocatable, capacity).await
    }

    pub(super) async fn offers_within(
        &self,
        limit: Duration,
        allocatable: i64,
        capacity: i64,
    ) -> anyhow::Result<()> {
        self.by(format!("waiting for allocatable {allocatable} of {capacity}"));
        within(limit, &format!("allocatable to be {allocatable} of {capacity}"), || async {
            let node = self.node().await?;
            Ok(amounts(&node, names::NEURON) == (allocatable, capacity)
                && amounts(&node, names::NEURONCORE) == (allocatable * CORES, capacity * CORES))
        })
        .await
    }

    /// Waits until kubelet offers this much of a resource: allocatable and capacity.
    pub(super) async fn until_amounts(&self, resource: &str, wanted: (i64, i64)) -> anyhow::Result<()> {
        self.until_amounts_within(LONGEST, resource, wanted).await
    }

    pub(super) async fn until_amounts_within(
        &self,
        limit: Duration,
        resource: &str,
        wanted: (i64, i64),
    ) -> anyhow::Result<()> {
        let (allocatable, capacity) = wanted;
        self.by(format!("waiting for allocatable {allocatable} of {capacity} of {resource}"));
        within(limit, &format!("allocatable of {resource} to be {allocatable} of {capacity}"), || async {
            Ok(amounts(&self.node().await?, resource) == wanted)
        })
        .await
    }

    /// A device plugin beside ours that fails.
    pub(super) async fn stand_in(&self, fails: Fails) -> anyhow::Result<StandIn> {
        self.by(format!("serving and registering a stand-in, a plugin that fails: {fails:?}"));
        StandIn::start(self.cluster, self.node_name()?, fails).await.context("starting the stand-in")
    }

    /// Checks for a while that kubelet calls a stand-in that failed no more, and offers this much of its resource.
    pub(super) async fn unused(&self, stand_in: &StandIn, wanted: (i64, i64)) -> anyhow::Result<()> {
        self.steadily("kubelet leaves the stand-in alone", || async {
            let (calls, expected) = (stand_in.calls(), stand_in.expected_calls());
            ensure!(calls == expected, "kubelet called {calls:?}, not {expected:?}");
            let now = amounts(&self.node().await?, stand_in.resource());
            ensure!(now == wanted, "{} is {now:?}, not {wanted:?}", stand_in.resource());
            Ok(())
        })
        .await
    }

    /// Everything runs again that the case stopped, and nothing holds its pods back.
    pub(super) async fn tidy(&self) -> anyhow::Result<()> {
        let node = self.node_name()?;
        if self.kubelet_stopped.load(Ordering::SeqCst) {
            self.start_kubelet_alone().await?;
        }
        for pod in self.cluster.pods_on(node, PLUGIN).await? {
            // A process that was stopped ends or goes on; one that was not takes no notice.
            if let Err(error) = self.signal_plugin(&pod, "SIGCONT").await {
                self.by(format!("the plugin took no signal: {error:#}"));
            }
        }
        self.cluster.start_plugin(node).await?;
        for pod in self.pods().list(&ListParams::default()).await.context("listing pods")?.items {
            if pod.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty()) {
                self.release(&pod.metadata.name.unwrap_or_default()).await?;
            }
        }
        Ok(())
    }

    /// Takes the finalizers off a pod.
    pub(super) async fn release(&self, pod: &str) -> anyhow::Result<()> {
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let patched = self.pods().patch(pod, &PatchParams::default(), &none).await;
        patched.with_context(|| format!("taking the finalizer off pod {pod}"))?;
        Ok(())
    }
}

/// Allocatable and capacity of a resource; -1 where kubelet does not name it.
pub(super) fn amounts(node: &Node, resource: &str) -> (i64, i64) {
    let amount = |all: Option<&BTreeMap<String, Quantity>>| {
        let found = all.and_then(|all| all.get(resource));
        found.and_then(|quantity| quantity.0.parse().ok()).unwrap_or(-1)
    };
    let status = node.status.as_ref();
    (
        amount(status.and_then(|status| status.allocatable.as_ref())),
        amount(status.and_then(|status| status.capacity.as_ref())),
    )
}
