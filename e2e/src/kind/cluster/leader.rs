//! The replica of the extender that leads, which the label of its pod tells: killed, or stopped where it is. Called by
//! [`crate::kind::stage`].

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kind_driver::WAIT;
use kind_driver::status::containers;
use kube::api::{Api, ListParams};
use neuron_core::names::LEADER_LABEL;

use super::KindCluster;
use super::extender::EXTENDER_PODS;
use super::install::SYSTEM;

/// The process of a replica that was stopped where it is.
pub(super) struct StoppedLeader {
    node: String,
    container: String,
}

impl KindCluster {
    /// Kills the replica that leads, once one does, and waits for nothing.
    pub(in crate::kind) async fn kill_leader(&self) -> anyhow::Result<()> {
        self.leader_other_than(None).await?;
        self.driver.kill_pods(SYSTEM, &leaders(), None).await
    }

    /// Stops the process of the replica that leads, and waits until another one does. Whoever goes through the Service keeps its
    /// connection to the stopped one: with HTTP until a call has timed out, with HTTP/2 until a ping has (`deploy/`).
    pub(in crate::kind) async fn stop_leader(&self) -> anyhow::Result<()> {
        let leader = self.leader_other_than(None).await?;
        let name = leader.metadata.name.clone().unwrap_or_default();
        let container = containers(&leader).find_map(|container| container.container_id.clone());
        let container = container.with_context(|| format!("pod {name} of the extender has no container"))?;
        let node = leader.spec.and_then(|spec| spec.node_name);
        let node = node.with_context(|| format!("pod {name} of the extender is on no node"))?;
        let stopped = self.driver.signal_container(&node, &container, "SIGSTOP").await;
        stopped.with_context(|| format!("stopping {name} on {node}"))?;
        *self.stopped_leader.lock().await = Some(StoppedLeader { node, container });
        self.leader_other_than(Some(&name)).await?;
        self.proxy_follows().await
    }

    /// Lets the stopped process go on, and waits until all replicas are ready.
    pub(in crate::kind) async fn continue_leader(&self) -> anyhow::Result<()> {
        let stopped = self.stopped_leader.lock().await.take();
        let StoppedLeader { node, container } = stopped.context("no extender is stopped where it is")?;
        // kubelet ends a process that answers no probes, after a minute; one that is gone does not go on, and the scenario would show nothing.
        let continued = self.driver.signal_container(&node, &container, "SIGCONT").await;
        self.start_extender().await?;
        continued.with_context(|| format!("the stopped extender on {node} was ended before it could go on"))
    }

    /// Waits until a replica leads, other than the pod of this name.
    pub(super) async fn leader_other_than(&self, name: Option<&str>) -> anyhow::Result<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client(), SYSTEM);
        let labelled = ListParams::default().labels(&leaders());
        let is_another = |pod: &Pod| {
            pod.metadata.deletion_timestamp.is_none()
                && name.is_none_or(|name| pod.metadata.name.as_deref() != Some(name))
        };
        WAIT.found("another extender to lead", async || {
            Ok(pods.list(&labelled).await?.items.into_iter().find(&is_another))
        })
        .await
    }
}

/// Selector of the pod that leads.
fn leaders() -> String {
    format!("{EXTENDER_PODS},{LEADER_LABEL}=true")
}
