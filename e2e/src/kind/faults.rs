//! What scenarios break on real nodes beside our own parts: the container runtime, the API server, etcd, whole nodes.
//! Called by [`super::stage`].

use anyhow::Context as _;
use jiff::Timestamp;
use neuron_core::names::Resource;

use super::nodes::thaw;
use super::stand_in::{Fails, StandIn};
use super::wait::until;
use super::{KindCluster, program};

/// Where kubelet finds the API server's static pod, and where it does not.
const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";
const API_SERVER_AWAY: &str = "/etc/kubernetes/kube-apiserver.yaml.stopped";

/// Restarts containerd: the service where there is systemd; else the offline node's supervisor starts what was killed.
const RESTART_CONTAINERD: &str = "if command -v systemctl >/dev/null; then systemctl restart containerd; else \
    pkill -KILL -x containerd; fi";

/// Everything that fake hardware is. What uses it is frozen first: it must not see its devices vanish one by one
/// before the machine is down.
const REMOVE_HARDWARE: &str = "pkill -STOP -x neuron-device-p; pkill -STOP -x fake-neuron; \
    find /var/lib/fake-neuron -mindepth 1 -delete";

impl KindCluster {
    /// Kills a node's containerd and waits until another one answers and kubelet has said so.
    pub(super) async fn restart_containerd(&self, node: &str) -> anyhow::Result<()> {
        let before = self.process(node, "containerd").await?;
        let began = Timestamp::now();
        self.in_node(node, RESTART_CONTAINERD)
            .await
            .with_context(|| format!("restarting containerd of {node}"))?;
        until(&format!("another containerd on {node}"), || async {
            let now = self.process(node, "containerd").await?;
            self.in_node(node, "ctr version").await?;
            Ok(now.is_some() && now != before)
        })
        .await?;
        self.serves(node, Some(began)).await
    }

    /// Kills etcd; kubelet starts it anew.
    pub(super) async fn restart_etcd(&self) -> anyhow::Result<()> {
        self.restart_static("etcd").await
    }

    /// Kills the API server; kubelet starts it anew.
    pub(super) async fn restart_api_server(&self) -> anyhow::Result<()> {
        self.restart_static("kube-apiserver").await
    }

    /// Takes the API server's manifest away from kubelet and waits until it no longer runs.
    pub(super) async fn stop_api_server(&self) -> anyhow::Result<()> {
        let node = &self.control_plane;
        self.in_node(node, &format!("mv {API_SERVER} {API_SERVER_AWAY}")).await?;
        until("the API server to end", || async { Ok(self.process(node, "kube-apiserver").await?.is_none()) })
            .await
    }

    /// Gives the manifest back and waits until the API server is ready.
    pub(super) async fn start_api_server(&self) -> anyhow::Result<()> {
        let node = &self.control_plane;
        self.in_node(node, &format!("mv {API_SERVER_AWAY} {API_SERVER}")).await?;
        until("the API server to be ready", || async {
            self.kubectl(&["get", "--raw", "/readyz"], "").await.map(|_| true)
        })
        .await
    }

    async fn restart_static(&self, name: &str) -> anyhow::Result<()> {
        let node = &self.control_plane;
        let before = self.process(node, name).await?;
        self.in_node(node, &format!("pkill -KILL -x {name}"))
            .await
            .with_context(|| format!("killing {name}"))?;
        until(&format!("another {name} that serves"), || async {
            let now = self.process(node, name).await?;
            self.kubectl(&["get", "--raw", "/readyz"], "").await?;
            Ok(now.is_some() && now != before)
        })
        .await
    }

    /// Kills every process of this program on these nodes, as the system does that runs out of memory. An error where
    /// none runs on any of them.
    pub(super) async fn kill(&self, program: &str, nodes: &[String]) -> anyhow::Result<()> {
        // Linux keeps 15 bytes of a process' name.
        let name = program.get(..15).unwrap_or(program);

        let mut killed = false;
        for node in nodes {
            let kill = format!("if pkill -KILL -x {name}; then echo killed; fi");
            let said = self.in_node(node, &kill).await;
            killed |= !said.with_context(|| format!("killing {program} on {node}"))?.trim().is_empty();
        }
        anyhow::ensure!(killed, "{program} was to be killed, and runs nowhere");
        Ok(())
    }

    /// The id of the newest process of that name in the node, if one runs.
    async fn process(&self, node: &str, name: &str) -> anyhow::Result<Option<u32>> {
        let ids = self.in_node(node, &format!("pgrep --newest -x {name} || :")).await?;
        Ok(ids.trim().parse().ok())
    }

    /// Freezes the node with everything on it: to all others it is away.
    pub(super) async fn stop_node(&self, node: &str) -> anyhow::Result<()> {
        program::output("docker", &["pause", node]).await.with_context(|| format!("freezing {node}"))?;
        Ok(())
    }

    /// Lets a frozen node go on and waits until it offers its devices again.
    pub(super) async fn start_node(&self, node: &str) -> anyhow::Result<()> {
        let began = Timestamp::now();
        thaw(node).await?;
        self.serves(node, Some(began)).await
    }

    /// Restarts the node's container and waits until kubelet, hardware and plugin are back.
    pub(super) async fn reboot(&self, node: &str, hardware_anew: bool) -> anyhow::Result<()> {
        if hardware_anew {
            self.in_node(node, REMOVE_HARDWARE).await.with_context(|| format!("hardware of {node}"))?;
        }
        let began = Timestamp::now();
        // Without a grace: nobody asks a machine that loses its power.
        program::output("docker", &["restart", "-t", "0", node]).await?;
        self.let_pods_reach_the_proxy().await?;
        self.serves(node, Some(began)).await?;
        // Again: a node that starts writes its rules anew, perhaps without the one of a moment ago.
        self.let_pods_reach_the_proxy().await
    }

    /// Lets a plugin of the resource register on the node and die before kubelet has its first list.
    pub(super) async fn die_before_the_first_list(
        &self,
        node: &str,
        resource: Resource,
    ) -> anyhow::Result<()> {
        let name = resource.name();
        let plugin = StandIn::of(self, node, name.to_owned(), Fails::Never).await?;
        plugin.register().await?.with_context(|| format!("registering a plugin of {name} on {node}"))?;
        until(&format!("kubelet of {node} to ask for the list of {name}"), || async {
            Ok(plugin.calls() == plugin.expected_calls())
        })
        .await
    }
}
