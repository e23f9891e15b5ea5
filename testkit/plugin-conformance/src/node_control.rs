//! What a case does to the node: kubelet, the device plugin and containers stopped, killed and started; and what kubelet
//! advertises meanwhile.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kind_driver::status::{Amounts, is_ready_since};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use testkit_support::Wait;

use super::case_context::CaseContext;
use super::faulty_plugin::{self, Fault, FaultyPlugin};
use super::instance::{ContainerOf, Instance, Signal};

impl CaseContext<'_> {
    /// Stops kubelet; containers go on.
    pub(crate) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        self.step("stopping the kubelet");
        self.kubelet_stopped.store(true, Ordering::SeqCst);
        self.stage.stop_kubelet().await
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
        self.stage.start_kubelet().await
    }

    /// Takes the plugin off the node and waits until it has ended.
    pub(crate) async fn stop_plugin(&self) -> anyhow::Result<()> {
        self.step("stopping the device plugin");
        self.stage.stop_plugin().await
    }

    /// Brings the plugin back and waits until everything is advertised.
    pub(crate) async fn start_plugin(&self) -> anyhow::Result<()> {
        self.step("starting the device plugin");
        self.stage.start_plugin().await?;
        self.advertises_everything_since(None).await
    }

    /// The plugin, if it is said to work.
    pub(crate) async fn plugin(&self) -> anyhow::Result<Instance> {
        let plugins = self.stage.plugins().await?;
        plugins.into_iter().find(|plugin| plugin.is_ready).context("no device plugin is ready on the node")
    }

    /// Ends the plugin at once and waits until another has registered and everything is advertised.
    pub(crate) async fn replace_plugin(&self) -> anyhow::Result<()> {
        self.step("ending the plugin, so that another registers");
        let before = self.plugin().await?;
        let began = self.stage.replace_plugin(&before).await?;
        self.advertises_everything_since(began).await
    }

    /// Lets the plugin's pod be deleted while kubelet is away, so that kubelet does not start it when it is back.
    pub(crate) async fn keep_plugin_away(&self) -> anyhow::Result<()> {
        self.step("keeping the device plugin away");
        self.stage.keep_plugin_away().await
    }

    /// How often the plugin's container has restarted.
    pub(crate) async fn plugin_restarts(&self) -> anyhow::Result<i32> {
        Ok(self.plugin().await?.restarts)
    }

    /// Makes a device of the node healthy or unhealthy, by its place among them.
    pub(crate) async fn set_health(&self, device: u64, healthy: bool) -> anyhow::Result<()> {
        let health = if healthy { "Healthy" } else { "Unhealthy" };
        self.step(format!("device {device} becomes {health}"));
        self.stage.set_health(device, healthy).await
    }

    /// Sends the plugin's processes a signal.
    pub(crate) async fn signal_plugin(&self, plugin: &Instance, signal: Signal) -> anyhow::Result<()> {
        self.stage.signal_plugin(plugin, signal).await
    }

    /// Kills a container and waits until kubelet has started it again. Gives how often it has.
    pub(crate) async fn restart_container(&self, pod: &str, container: &str) -> anyhow::Result<i32> {
        self.step(format!("killing container {pod}/{container}, and waiting for it to restart"));
        let before = self.status(pod, container).await?;
        let (object, id) = (self.pod(pod).await?, before.container_id.as_deref());
        self.stage.kill_container(&ContainerOf { pod: &object, name: container, id }).await?;
        self.stage
            .wait()
            .until(&format!("container {pod}/{container} to restart"), async || {
                let now = self.status(pod, container).await?;
                let runs = now.state.is_some_and(|state| state.running.is_some());
                Ok(runs && now.restart_count > before.restart_count)
            })
            .await?;
        Ok(self.status(pod, container).await?.restart_count)
    }

    /// Kills every container on the node, as a reboot does; with `except` all but those of this plugin.
    pub(crate) async fn kill_containers(&self, except: Option<&Instance>) -> anyhow::Result<()> {
        self.step("stopping all the local containers");
        self.stage.kill_containers(except).await
    }

    /// Waits until a pod of the plugin is ready and every device is advertised; with `since`, by a status that kubelet wrote
    /// later than that.
    pub(crate) async fn advertises_everything_since(&self, since: Option<Timestamp>) -> anyhow::Result<()> {
        let devices = self.devices();
        self.stage
            .wait()
            .until(&format!("node {} to advertise its devices", self.stage.node()), async || {
                let is_ready = self.stage.plugins().await?.iter().any(|plugin| plugin.is_ready);
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

    /// Waits until kubelet advertises this many devices of all there are.
    pub(crate) async fn until_allocatable(&self, allocatable: u64) -> anyhow::Result<()> {
        self.advertises(allocatable, self.devices()).await
    }

    /// Waits until kubelet advertises this many devices, of this many it has, and what goes with them.
    pub(crate) async fn advertises(&self, allocatable: u64, capacity: u64) -> anyhow::Result<()> {
        self.advertises_within(self.stage.wait().timeout, allocatable, capacity).await
    }

    pub(crate) async fn advertises_within(
        &self,
        timeout: Duration,
        allocatable: u64,
        capacity: u64,
    ) -> anyhow::Result<()> {
        self.step(format!("waiting for allocatable {allocatable} of {capacity}"));
        self.pass_grace(timeout);
        let what = format!("allocatable to be {allocatable} of {capacity}");
        Wait { timeout, ..self.stage.wait() }
            .until(&what, async || Ok(self.has(&self.node_object().await?, allocatable, capacity)))
            .await
    }

    /// Lets the time pass that is longer than any that something may take, where kubelet's clock is the kit's.
    fn pass_grace(&self, timeout: Duration) {
        if timeout > self.stage.wait().timeout {
            self.stage.pass(timeout);
        }
    }

    /// Whether the node has so many devices, and what goes with them.
    pub(crate) fn has(&self, node: &Node, allocatable: u64, capacity: u64) -> bool {
        let plugin = self.stage.description();
        let also = plugin.with_each_device.iter().map(|also| (also.resource.as_str(), also.count));
        std::iter::once((plugin.resource.as_str(), 1)).chain(also).all(|(resource, count)| {
            Amounts::on(node, resource) == Amounts::of(allocatable * count, capacity * count)
        })
    }

    /// Waits until kubelet advertises this much of a resource.
    pub(crate) async fn until_amounts(&self, resource: &str, wanted: Amounts) -> anyhow::Result<()> {
        self.until_amounts_within(self.stage.wait().timeout, resource, wanted).await
    }

    pub(crate) async fn until_amounts_within(
        &self,
        timeout: Duration,
        resource: &str,
        wanted: Amounts,
    ) -> anyhow::Result<()> {
        self.step(format!("waiting for {wanted} of {resource}"));
        self.pass_grace(timeout);
        let what = format!("{resource} to have {wanted}");
        Wait { timeout, ..self.stage.wait() }
            .until(&what, async || Ok(Amounts::on(&self.node_object().await?, resource) == wanted))
            .await
    }

    /// A device plugin beside the one under test that fails.
    pub(crate) async fn faulty_plugin(&self, fault: Fault) -> anyhow::Result<FaultyPlugin> {
        self.step(format!("serving and registering a faulty plugin: {fault:?}"));
        let started = self.stage.faulty_plugin(faulty_plugin::resource_of(fault), fault).await;
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

    /// Why kubelet has panicked, as far as that can be seen.
    pub(crate) async fn panic_reason(&self) -> Option<String> {
        match self.stage.embedded() {
            Some(node) => node.panic_reason().await,
            None => None,
        }
    }

    /// Everything runs again that the case stopped, and its pods are on their way out.
    pub(crate) async fn tidy(&self) -> anyhow::Result<()> {
        if self.kubelet_stopped.load(Ordering::SeqCst) {
            self.start_kubelet_alone().await?;
        }
        for plugin in self.stage.plugins().await? {
            // A process that was stopped ends or goes on; one that was not takes no notice.
            if let Err(error) = self.signal_plugin(&plugin, Signal::Continue).await {
                self.step(format!("the plugin took no signal: {error:#}"));
            }
        }
        self.stage.start_plugin().await?;
        self.stage.remove_second_plugin().await?;
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
