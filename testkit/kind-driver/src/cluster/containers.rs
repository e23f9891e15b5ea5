//! A node's containers and containerd itself.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;

use super::Cluster;
use crate::WAIT;

/// Restarts containerd: the service where there is systemd; else the node's supervisor starts what was killed.
const RESTART: &str = "if command -v systemctl >/dev/null; then systemctl restart containerd; else \
    pkill -KILL -x containerd; fi";

impl Cluster {
    /// Kills a node's containerd and waits until another one answers.
    ///
    /// # Errors
    /// None does in time.
    pub async fn restart_containerd(&self, node: &str) -> anyhow::Result<()> {
        let before = self.process(node, "containerd").await?;
        self.exec(node, RESTART).await.with_context(|| format!("restarting containerd of {node}"))?;
        WAIT.until(&format!("another containerd on {node}"), async || {
            let now = self.process(node, "containerd").await?;
            self.exec(node, "ctr version").await?;
            Ok(now.is_some() && now != before)
        })
        .await
    }

    /// Sends a container's process a signal, such as `SIGKILL`. The id is as in a pod's status.
    ///
    /// # Errors
    /// No such container runs on the node.
    pub async fn signal_container(&self, node: &str, container_id: &str, signal: &str) -> anyhow::Result<()> {
        let command = format!("ctr -n k8s.io tasks kill --signal {signal} {}", bare(container_id));
        self.exec(node, &command).await?;
        Ok(())
    }

    /// Whether containerd still has a container of this id on the node.
    ///
    /// # Errors
    /// The node does not answer.
    pub async fn has_container(&self, node: &str, container_id: &str) -> anyhow::Result<bool> {
        let all = self.exec(node, "ctr -n k8s.io containers ls -q").await?;
        Ok(all.lines().any(|line| line == bare(container_id)))
    }

    /// Kills every container on the node, as a reboot does; with `except` all but those of this pod. kubelet should be
    /// stopped: it starts them again.
    ///
    /// # Errors
    /// Some do not end in time.
    pub async fn kill_containers(&self, node: &str, except: Option<&Pod>) -> anyhow::Result<()> {
        let spared = except.and_then(|pod| pod.metadata.uid.as_deref());
        let filter = spared.map(|uid| format!("'labels.\"io.kubernetes.pod.uid\"!={uid}'"));
        let running = format!(
            "set -eu -o pipefail; all=$(ctr -n k8s.io containers ls -q {}); \
             running=$(ctr -n k8s.io tasks ls | awk '$3 == \"RUNNING\" {{print $1}}'); \
             comm -12 <(sort <<< \"$all\") <(sort <<< \"$running\")",
            filter.unwrap_or_default()
        );
        for id in self.exec(node, &running).await?.split_whitespace() {
            // Some end with others: a container with its sandbox.
            self.exec(node, &format!("ctr -n k8s.io tasks kill -s SIGKILL {id} || :")).await?;
        }
        WAIT.until(&format!("the containers of {node} to end"), async || {
            Ok(self.exec(node, &running).await?.trim().is_empty())
        })
        .await
    }
}

/// `containerd://0123` as containerd itself calls it.
pub(super) fn bare(container_id: &str) -> &str {
    container_id.rsplit('/').next().unwrap_or(container_id)
}
