//! What scenarios break on real nodes beside our own parts: the container runtime and whole nodes. The control plane's parts,
//! such as the API server, are stopped by [`kind_driver::Cluster::stop_part`]. Called by [`crate::kind::stage`].

use anyhow::Context as _;
use jiff::Timestamp;
use kind_driver::WAIT;
use neuron_core::names::Resource;
use plugin_conformance::faulty_plugin::{Fault, FaultyPlugin};

use super::KindCluster;

/// Everything that fake hardware is. What uses it is frozen first: it must not see its devices vanish one by one
/// before the machine is down.
const REMOVE_HARDWARE: &str = "pkill -STOP -x neuron-device-p; pkill -STOP -x fake-neuron; \
    find /var/lib/fake-neuron -mindepth 1 -delete";

impl KindCluster {
    /// Kills a node's containerd and waits until another one answers and kubelet has said so.
    pub(in crate::kind) async fn restart_containerd(&self, node: &str) -> anyhow::Result<()> {
        let began = Timestamp::now();
        self.driver.restart_containerd(node).await?;
        self.serves(node, Some(began)).await
    }

    /// Starts a node's kubelet and waits until it advertises again what the plugin reports.
    pub(in crate::kind) async fn start_kubelet(&self, node: &str) -> anyhow::Result<()> {
        let began = self.driver.start_kubelet(node).await?;
        self.serves(node, Some(began)).await
    }

    /// Lets a frozen node go on and waits until it advertises its devices again.
    pub(in crate::kind) async fn start_node(&self, node: &str) -> anyhow::Result<()> {
        let began = Timestamp::now();
        self.driver.thaw(node).await?;
        self.serves(node, Some(began)).await
    }

    /// Restarts the node's container and waits until kubelet, hardware and plugin are back.
    pub(in crate::kind) async fn reboot(&self, node: &str, hardware_anew: bool) -> anyhow::Result<()> {
        if hardware_anew {
            let removed = self.driver.exec(node, REMOVE_HARDWARE).await;
            removed.with_context(|| format!("hardware of {node}"))?;
        }
        let began = Timestamp::now();
        self.driver.reboot(node).await?;
        self.let_pods_reach_the_proxy().await?;
        self.serves(node, Some(began)).await?;
        // Again: a node that starts writes its rules anew, perhaps without the one of a moment ago.
        self.let_pods_reach_the_proxy().await
    }

    /// Lets a plugin of the resource register on the node and die before kubelet has its first list.
    pub(in crate::kind) async fn die_before_the_first_list(
        &self,
        node: &str,
        resource: Resource,
    ) -> anyhow::Result<()> {
        let name = resource.name();
        let plugin = FaultyPlugin::of(&self.driver, node, name.to_owned(), Fault::NeverLists).await?;
        plugin.register().await?.with_context(|| format!("registering a plugin of {name} on {node}"))?;
        WAIT.until(&format!("kubelet of {node} to ask for the list of {name}"), async || {
            Ok(plugin.calls() == plugin.expected_calls())
        })
        .await
    }
}
