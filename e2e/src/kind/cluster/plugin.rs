//! The device plugin on single nodes: stopped, started, and when a node advertises what it reports.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kind_driver::status::{Amounts, is_ready, is_ready_since};
use kind_driver::{DaemonSetSwitch, WAIT};
use neuron_core::names;
use neuron_e2e_engine::observe::report;
use testkit_support::Wait;

use super::KindCluster;
use super::install::{PLUGIN_DAEMON_SET, SYSTEM};

/// Node label that keeps the device plugin away while it says `off`.
pub(super) const PLUGIN_LABEL: &str = "neuron-e2e/plugin";
/// Selector of the plugin's pods.
pub(crate) const PLUGIN_PODS: &str = "name=neuron-device-plugin-ds";

/// Takes the plugin off nodes and brings it back.
pub(super) fn plugin_switch() -> DaemonSetSwitch {
    DaemonSetSwitch {
        namespace: SYSTEM.to_owned(),
        daemon_set: PLUGIN_DAEMON_SET.to_owned(),
        pods: PLUGIN_PODS.to_owned(),
        label: PLUGIN_LABEL.to_owned(),
    }
}

impl KindCluster {
    /// The plugin's pods on this node.
    pub(crate) async fn plugin_pods(&self, node: &str) -> anyhow::Result<Vec<Pod>> {
        self.driver.pods_on(node, SYSTEM, PLUGIN_PODS).await
    }

    /// Takes the plugin away from the node and waits until kubelet advertises nothing.
    pub(crate) async fn stop_plugin(&self, node: &str) -> anyhow::Result<()> {
        self.take_plugin(node).await?;
        self.advertises_nothing(node).await
    }

    /// Takes the plugin away from the node and waits until it has ended.
    pub(crate) async fn take_plugin(&self, node: &str) -> anyhow::Result<()> {
        plugin_switch().take_off(&self.driver, node).await
    }

    /// Kills the plugin of a node and waits for nothing.
    pub(crate) async fn kill_plugin(&self, node: &str) -> anyhow::Result<()> {
        self.driver.kill_pods(SYSTEM, PLUGIN_PODS, Some(node)).await
    }

    /// Lets the plugin run on the node and waits until kubelet advertises what it reports.
    pub(crate) async fn start_plugin(&self, node: &str) -> anyhow::Result<()> {
        self.let_plugin_run(node).await?;
        self.serves(node, None).await
    }

    /// Has the API server delete the plugin's pod on a node whose kubelet is away.
    pub(crate) async fn keep_plugin_away(&self, node: &str) -> anyhow::Result<()> {
        plugin_switch().switch_off(&self.driver, node).await
    }

    /// Lets the plugin run on the node, and waits for nothing.
    pub(crate) async fn let_plugin_run(&self, node: &str) -> anyhow::Result<()> {
        plugin_switch().switch_on(&self.driver, node).await
    }

    /// Waits until kubelet, whose plugin has ended, advertises nothing.
    pub(super) async fn advertises_nothing(&self, node: &str) -> anyhow::Result<()> {
        self.advertises_nothing_within(WAIT, node).await
    }

    pub(super) async fn advertises_nothing_within(&self, wait: Wait, node: &str) -> anyhow::Result<()> {
        wait.until(&format!("node {node} to advertise nothing"), async || {
            Ok(allocatable(&self.driver.node(node).await?, names::NEURON) == 0)
        })
        .await
    }

    /// Waits until the plugin is ready and kubelet advertises exactly what the node's report says; with `since`, by a
    /// status that kubelet wrote later than that.
    pub(crate) async fn serves(&self, node: &str, since: Option<Timestamp>) -> anyhow::Result<()> {
        self.serves_within(WAIT, node, since).await
    }

    pub(super) async fn serves_within(
        &self,
        wait: Wait,
        node: &str,
        since: Option<Timestamp>,
    ) -> anyhow::Result<()> {
        wait.until(&format!("node {node} to advertise its devices"), async || {
            let ready = self.plugin_pods(node).await?.iter().any(is_ready);
            let node = self.driver.node(node).await?;
            Ok(ready
                && advertises_its_report(&node)
                && since.is_none_or(|since| is_ready_since(&node, since)))
        })
        .await
    }
}

/// How many of a resource kubelet advertises.
fn allocatable(node: &Node, resource: &str) -> usize {
    let allocatable = Amounts::on(node, resource).allocatable;
    allocatable.and_then(|amount| usize::try_from(amount).ok()).unwrap_or(0)
}

fn advertises_its_report(node: &Node) -> bool {
    let Some(report) = report(node) else { return false };
    let healthy = report.devices.iter().filter(|device| device.health.is_served()).count();
    healthy > 0
        && allocatable(node, names::NEURON) == healthy
        && allocatable(node, names::NEURONCORE) >= healthy
}
