//! What a case does to the node: kubelet, the device plugin and containers stopped, killed and started; and what kubelet
//! advertises meanwhile.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kind_driver::WAIT;
use kind_driver::status::{Amounts, containers, is_ready, is_ready_since};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use testkit_support::Wait;

use super::case_context::CaseContext;
use super::faulty_plugin::{Fault, FaultyPlugin};

impl CaseContext<'_> {
    /// Stops kubelet; containers go on.
    pub(crate) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        self.step("stopping the kubelet");
        self.kubelet_stopped.store(true, Ordering::SeqCst);
        self.cluster.stop_kubelet(self.node).await
    }

    /// Starts kubelet and waits until the node is ready and advertises its devices again.
    pub(crate) async fn start_kubelet(&self) -> anyhow::Result<()> {
        let began = self.start_kubelet_alone().await?;
        self.advertises_everything_since(Some(began)).await
    }

    /// Starts kubelet and waits until the node is ready, without a plugin that registers.
    pub(crate) async fn start_kubelet_alone(&self) -> anyhow::Result<Timestamp> {
        self.step("starting the kubelet");
        self.kubelet_stopped.store(false, Ordering::SeqCst);
        self.cluster.start_kubelet(self.node).await
    }

    /// Takes the plugin off the node and waits until it has ended.
    pub(crate) async fn stop_plugin(&self) -> anyhow::Result<()> {
        self.step("stopping the device plugin");
        self.plugin.stop(self.node).await
    }

    /// Brings the plugin back and waits until everything is advertised.
    pub(crate) async fn start_plugin(&self) -> anyhow::Result<()> {
        self.step("starting the device plugin");
        self.plugin.start(self.node).await?;
        self.advertises_everything_since(None).await
    }

    /// The plugin's pods on the node.
    async fn plugin_pods(&self) -> anyhow::Result<Vec<Pod>> {
        let plugin = self.plugin.description();
        self.cluster.pods_on(self.node, &plugin.namespace, &plugin.pods).await
    }

    /// The plugin's pod.
    pub(crate) async fn plugin_pod(&self) -> anyhow::Result<Pod> {
        let pods = self.plugin_pods().await?;
        pods.into_iter().find(is_ready).context("no pod of the device plugin is ready")
    }

    /// Deletes the plugin's pod at once and waits until another has registered and everything is advertised.
    pub(crate) async fn replace_plugin(&self) -> anyhow::Result<()> {
        self.step("deleting the plugin pod, so that another registers");
        let (before, began) = (self.plugin_pod().await?, Timestamp::now());
        let name = before.metadata.name.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), &self.plugin.description().namespace);
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await.context("deleting the plugin")?;
        WAIT.until("another plugin to be ready", async || {
            let now = self.plugin_pods().await?;
            Ok(now.iter().any(|pod| is_ready(pod) && pod.metadata.uid != before.metadata.uid))
        })
        .await?;
        self.advertises_everything_since(Some(began)).await
    }

    /// Lets the plugin's pod be deleted while kubelet is away, so that kubelet does not start it when it is back.
    pub(crate) async fn keep_plugin_away(&self) -> anyhow::Result<()> {
        self.step("keeping the device plugin away");
        self.plugin.keep_away(self.node).await
    }

    /// How often the plugin's container has restarted.
    pub(crate) async fn plugin_restarts(&self) -> anyhow::Result<i32> {
        let pod = self.plugin_pod().await?;
        Ok(containers(&pod).map(|status| status.restart_count).sum())
    }

    /// Makes a device of the node healthy or unhealthy, by its place among them.
    pub(crate) async fn set_health(&self, device: u64, healthy: bool) -> anyhow::Result<()> {
        let health = if healthy { "Healthy" } else { "Unhealthy" };
        self.step(format!("device {device} becomes {health}"));
        self.plugin.set_health(self.node, device, healthy).await
    }

    /// Sends the processes of the plugin's containers a signal, such as `SIGKILL`.
    pub(crate) async fn signal_plugin(&self, plugin: &Pod, signal: &str) -> anyhow::Result<()> {
        let ids: Vec<&str> = containers(plugin).filter_map(|status| status.container_id.as_deref()).collect();
        ensure!(!ids.is_empty(), "the plugin's container has no id");
        for id in ids {
            self.cluster.signal_container(self.node, id, signal).await?;
        }
        Ok(())
    }

    /// Kills a container and waits until kubelet has started it again. Gives how often it has.
    pub(crate) async fn restart_container(&self, pod: &str, container: &str) -> anyhow::Result<i32> {
        self.step(format!("killing container {pod}/{container}, and waiting for it to restart"));
        let before = self.status(pod, container).await?;
        let id = before.container_id.clone().context("the container has no id")?;
        self.cluster.signal_container(self.node, &id, "SIGKILL").await?;
        WAIT.until(&format!("container {pod}/{container} to restart"), async || {
            let now = self.status(pod, container).await?;
            let runs = now.state.is_some_and(|state| state.running.is_some());
            Ok(runs && now.restart_count > before.restart_count)
        })
        .await?;
        Ok(self.status(pod, container).await?.restart_count)
    }

    /// Kills every container on the node, as a reboot does; with `except` all but those of this pod.
    pub(crate) async fn kill_containers(&self, except: Option<&Pod>) -> anyhow::Result<()> {
        self.step("stopping all the local containers");
        self.cluster.kill_containers(self.node, except).await
    }

    /// Waits until a pod of the plugin is ready and every device is advertised; with `since`, by a status that kubelet wrote
    /// later than that.
    pub(crate) async fn advertises_everything_since(&self, since: Option<Timestamp>) -> anyhow::Result<()> {
        let devices = self.devices();
        WAIT.until(&format!("node {} to advertise its devices", self.node), async || {
            let is_ready = self.plugin_pods().await?.iter().any(is_ready);
            let node = self.node_object().await?;
            let heard = since.is_none_or(|since| is_ready_since(&node, since));
            Ok(is_ready && heard && self.has(&node, devices, devices))
        })
        .await
    }

    /// Waits until kubelet advertises every device.
    pub(crate) async fn advertises_all(&self) -> anyhow::Result<()> {
        self.advertises(self.devices(), self.devices()).await
    }

    /// Waits until kubelet advertises this many devices, of this many it has, and what goes with them.
    pub(crate) async fn advertises(&self, allocatable: u64, capacity: u64) -> anyhow::Result<()> {
        self.advertises_within(WAIT.timeout, allocatable, capacity).await
    }

    pub(crate) async fn advertises_within(
        &self,
        timeout: Duration,
        allocatable: u64,
        capacity: u64,
    ) -> anyhow::Result<()> {
        self.step(format!("waiting for allocatable {allocatable} of {capacity}"));
        let what = format!("allocatable to be {allocatable} of {capacity}");
        Wait { timeout, ..WAIT }
            .until(&what, async || Ok(self.has(&self.node_object().await?, allocatable, capacity)))
            .await
    }

    /// Whether the node has so many devices, and what goes with them.
    pub(crate) fn has(&self, node: &Node, allocatable: u64, capacity: u64) -> bool {
        let plugin = self.plugin.description();
        let also = plugin.with_each_device.iter().map(|also| (also.resource.as_str(), also.count));
        std::iter::once((plugin.resource.as_str(), 1)).chain(also).all(|(resource, count)| {
            Amounts::on(node, resource) == Amounts::of(allocatable * count, capacity * count)
        })
    }

    /// Waits until kubelet advertises this much of a resource.
    pub(crate) async fn until_amounts(&self, resource: &str, wanted: Amounts) -> anyhow::Result<()> {
        self.until_amounts_within(WAIT.timeout, resource, wanted).await
    }

    pub(crate) async fn until_amounts_within(
        &self,
        timeout: Duration,
        resource: &str,
        wanted: Amounts,
    ) -> anyhow::Result<()> {
        self.step(format!("waiting for {wanted} of {resource}"));
        let what = format!("{resource} to have {wanted}");
        Wait { timeout, ..WAIT }
            .until(&what, async || Ok(Amounts::on(&self.node_object().await?, resource) == wanted))
            .await
    }

    /// A device plugin beside the one under test that fails.
    pub(crate) async fn faulty_plugin(&self, fault: Fault) -> anyhow::Result<FaultyPlugin> {
        self.step(format!("serving and registering a faulty plugin: {fault:?}"));
        let started = FaultyPlugin::start(self.cluster, self.node, fault).await;
        started.context("starting the faulty plugin")
    }

    /// Checks for a while that kubelet calls a plugin that failed no more, and advertises this much of its resource.
    pub(crate) async fn is_left_alone(&self, plugin: &FaultyPlugin, wanted: Amounts) -> anyhow::Result<()> {
        self.steadily("kubelet leaves the faulty plugin alone", || async {
            let (calls, expected) = (plugin.calls(), plugin.expected_calls());
            ensure!(calls == expected, "kubelet called {calls:?}, not {expected:?}");
            let now = Amounts::on(&self.node_object().await?, plugin.resource());
            ensure!(now == wanted, "{} has {now}, not {wanted}", plugin.resource());
            Ok(())
        })
        .await
    }

    /// Everything runs again that the case stopped, and its pods are on their way out.
    pub(crate) async fn tidy(&self) -> anyhow::Result<()> {
        if self.kubelet_stopped.load(Ordering::SeqCst) {
            self.start_kubelet_alone().await?;
        }
        for pod in self.plugin_pods().await? {
            // A process that was stopped ends or goes on; one that was not takes no notice.
            if let Err(error) = self.signal_plugin(&pod, "SIGCONT").await {
                self.step(format!("the plugin took no signal: {error:#}"));
            }
        }
        self.plugin.start(self.node).await?;
        self.remove_second_plugin().await?;
        for pod in self.pods().list(&ListParams::default()).await.context("listing pods")?.items {
            if pod.metadata.finalizers.as_ref().is_some_and(|all| !all.is_empty()) {
                self.release(&pod.metadata.name.unwrap_or_default()).await?;
            }
        }
        self.remove_pods().await
    }

    /// Takes the finalizers off a pod.
    pub(crate) async fn release(&self, pod: &str) -> anyhow::Result<()> {
        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let patched = self.pods().patch(pod, &PatchParams::default(), &none).await;
        patched.with_context(|| format!("taking the finalizer off pod {pod}"))?;
        Ok(())
    }
}
