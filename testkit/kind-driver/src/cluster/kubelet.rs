//! A node's kubelet: stopped, started, restarted, and when it serves again.

use anyhow::Context as _;
use http::Request;
use jiff::Timestamp;

use super::Cluster;
use crate::WAIT;
use crate::status::is_ready_since;

/// Stops kubelet for good: the service where there is systemd; else the node's supervisor starts it only while its
/// configuration is there.
const STOP: &str = "if command -v systemctl >/dev/null; then systemctl stop kubelet; else \
    mv /var/lib/kubelet/config.yaml /var/lib/kubelet/config.yaml.stopped && pkill -x kubelet; fi";
/// Starts it again; nothing where it runs.
const START: &str = "if command -v systemctl >/dev/null; then systemctl start kubelet; \
    elif [ -e /var/lib/kubelet/config.yaml.stopped ]; then \
    mv /var/lib/kubelet/config.yaml.stopped /var/lib/kubelet/config.yaml; fi";

impl Cluster {
    /// Stops a node's kubelet and waits until it has ended; containers go on.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn stop_kubelet(&self, node: &str) -> anyhow::Result<()> {
        self.exec(node, STOP).await.with_context(|| format!("stopping kubelet of {node}"))?;
        WAIT.until(&format!("kubelet of {node} to end"), async || {
            Ok(self.process(node, "kubelet").await?.is_none())
        })
        .await
    }

    /// Starts a node's kubelet and waits until it says that the node is ready, whatever device plugins do. Gives the time
    /// of the start.
    ///
    /// # Errors
    /// It is not ready in time.
    pub async fn start_kubelet(&self, node: &str) -> anyhow::Result<Timestamp> {
        let began = Timestamp::now();
        self.exec(node, START).await.with_context(|| format!("starting kubelet of {node}"))?;
        WAIT.until(&format!("node {node} to be ready"), async || {
            Ok(is_ready_since(&self.node(node).await?, began) && self.has_compared(node).await?)
        })
        .await?;
        Ok(began)
    }

    /// Stops a node's kubelet and starts it again, as [`Self::start_kubelet`].
    ///
    /// # Errors
    /// It does not end, or is not ready, in time.
    pub async fn restart_kubelet(&self, node: &str) -> anyhow::Result<Timestamp> {
        self.stop_kubelet(node).await?;
        self.start_kubelet(node).await
    }

    /// Whether kubelet has compared what runs with what it was told to run. Until then a pod that was deleted while it
    /// was away still has its devices by kubelet's count, and a new one would be refused them.
    async fn has_compared(&self, node: &str) -> anyhow::Result<bool> {
        let request = Request::get(format!("/api/v1/nodes/{node}/proxy/metrics")).body(Vec::new())?;
        let metrics =
            self.client.request_text(request).await.with_context(|| format!("metrics of {node}"))?;
        Ok(metrics.lines().any(|line| line.starts_with("kubelet_desired_pods{")))
    }
}
