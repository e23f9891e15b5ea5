//! Stops and starts what runs on nodes: kubelet and the device plugin; and waits for a node to offer its devices.

use anyhow::Context as _;
use axum::http::Request;
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use neuron_core::names;
use neuron_core::report::{Health, NodeReport};
use serde_json::{Value, json};

use super::install::SYSTEM;
use super::wait::until;
use super::{KindCluster, program};

/// Node label that keeps the device plugin away while it says `off`.
pub(super) const PLUGIN_LABEL: &str = "neuron-e2e/plugin";

/// Stops kubelet for good: the service where there is systemd; else the offline node's supervisor starts it only
/// while its configuration is there.
const STOP_KUBELET: &str = "if command -v systemctl >/dev/null; then systemctl stop kubelet; else \
    mv /var/lib/kubelet/config.yaml /var/lib/kubelet/config.yaml.stopped && pkill -x kubelet; fi";
/// Starts it again; nothing where it runs.
pub(super) const START_KUBELET: &str = "if command -v systemctl >/dev/null; then systemctl start kubelet; \
    elif [ -e /var/lib/kubelet/config.yaml.stopped ]; then \
    mv /var/lib/kubelet/config.yaml.stopped /var/lib/kubelet/config.yaml; fi";

impl KindCluster {
    /// Runs a shell command in a node.
    pub(super) async fn in_node(&self, node: &str, command: &str) -> anyhow::Result<String> {
        in_container(node, command).await
    }

    /// Lets pods call the harness proxy on the host: the host knows no way back to a pod's own address, so calls to
    /// the proxy's go out under the node's.
    pub(super) async fn let_pods_reach_the_proxy(&self) -> anyhow::Result<()> {
        let rule = proxy_rule(&self.proxy.address().ip().to_string());
        let command = format!("iptables -t nat -C {rule} 2>/dev/null || iptables -t nat -A {rule}");
        try_join_all(self.nodes.iter().map(|node| self.in_node(node, &command))).await?;
        Ok(())
    }

    /// Merges this into the node.
    pub(super) async fn patch_node(&self, node: &str, patch: &Value) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("patching node {node}"))?;
        Ok(())
    }

    /// Waits until every worker's kubelet has made its Node: kind is done when kubelet has its certificate, which on a
    /// busy machine is earlier.
    pub(super) async fn nodes_are_known(&self) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        until("every worker to join", || async {
            let known = nodes.list_metadata(&ListParams::default()).await?;
            let known: Vec<String> = known.into_iter().filter_map(|node| node.metadata.name).collect();
            Ok(self.workers.iter().all(|worker| known.contains(worker)))
        })
        .await
    }

    pub(super) async fn node(&self, node: &str) -> anyhow::Result<Node> {
        Api::all(self.client.clone()).get(node).await.with_context(|| format!("reading node {node}"))
    }

    /// The pods of a part of the suite on this node, by the part's label `name`.
    pub(super) async fn pods_on(&self, node: &str, part: &str) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        let filter =
            ListParams::default().labels(&format!("name={part}")).fields(&format!("spec.nodeName={node}"));
        Ok(pods.list(&filter).await.with_context(|| format!("pods of {part} on {node}"))?.items)
    }

    /// Takes the plugin away from the node and waits until kubelet offers nothing.
    pub(super) async fn stop_plugin(&self, node: &str) -> anyhow::Result<()> {
        self.take_plugin(node).await?;
        self.offers_nothing(node).await
    }

    /// Takes the plugin away from the node and waits until it has ended.
    pub(super) async fn take_plugin(&self, node: &str) -> anyhow::Result<()> {
        self.patch_node(node, &json!({"metadata": {"labels": {PLUGIN_LABEL: "off"}}})).await?;
        until(&format!("the plugin of {node} to end"), || async {
            Ok(self.pods_on(node, "neuron-device-plugin-ds").await?.is_empty())
        })
        .await
    }

    /// Waits until kubelet, whose plugin has ended, offers nothing.
    pub(super) async fn offers_nothing(&self, node: &str) -> anyhow::Result<()> {
        until(&format!("node {node} to offer nothing"), || async {
            Ok(offered(&self.node(node).await?, names::NEURON) == 0)
        })
        .await
    }

    /// Lets the plugin run on the node and waits until what it reports is offered.
    pub(super) async fn start_plugin(&self, node: &str) -> anyhow::Result<()> {
        self.patch_node(node, &json!({"metadata": {"labels": {PLUGIN_LABEL: null}}})).await?;
        self.serves(node, None).await
    }

    /// Stops kubelet; containers go on.
    pub(super) async fn stop_kubelet(&self, node: &str) -> anyhow::Result<()> {
        self.in_node(node, STOP_KUBELET).await.with_context(|| format!("stopping kubelet of {node}"))?;
        until(&format!("kubelet of {node} to end"), || async {
            Ok(self.in_node(node, "pgrep -x kubelet || :").await?.trim().is_empty())
        })
        .await
    }

    /// Starts kubelet and waits until what the plugin reports is offered again.
    pub(super) async fn start_kubelet(&self, node: &str) -> anyhow::Result<()> {
        let began = self.begin_kubelet(node).await?;
        self.serves(node, Some(began)).await
    }

    /// Starts kubelet and waits until it says that the node is ready, whatever the plugin does. Gives the time of the
    /// start.
    pub(super) async fn begin_kubelet(&self, node: &str) -> anyhow::Result<Timestamp> {
        let began = Timestamp::now();
        self.in_node(node, START_KUBELET).await.with_context(|| format!("starting kubelet of {node}"))?;
        until(&format!("node {node} to be ready"), || async {
            Ok(is_heard_of(&self.node(node).await?, began) && self.has_tidied_up(node).await?)
        })
        .await?;
        Ok(began)
    }

    /// Whether kubelet has compared what runs with what it was told to run. Until then a pod that was deleted while it
    /// was away still has its devices in kubelet's books, and a new one would be refused them.
    async fn has_tidied_up(&self, node: &str) -> anyhow::Result<bool> {
        let request = Request::get(format!("/api/v1/nodes/{node}/proxy/metrics")).body(Vec::new())?;
        let metrics =
            self.client.request_text(request).await.with_context(|| format!("metrics of {node}"))?;
        Ok(metrics.lines().any(|line| line.starts_with("kubelet_desired_pods{")))
    }

    /// Waits until the plugin is ready and kubelet offers exactly what the node's report says; with `since`, by a
    /// status that kubelet wrote later than that.
    pub(super) async fn serves(&self, node: &str, since: Option<Timestamp>) -> anyhow::Result<()> {
        until(&format!("node {node} to offer its devices"), || async {
            let ready = self.pods_on(node, "neuron-device-plugin-ds").await?.iter().any(is_ready);
            let node = self.node(node).await?;
            Ok(ready && offers_its_report(&node) && since.is_none_or(|since| is_heard_of(&node, since)))
        })
        .await
    }
}

/// Runs a shell command in a node that is a container of this machine's Docker.
pub(super) async fn in_container(node: &str, command: &str) -> anyhow::Result<String> {
    program::output("docker", &["exec", node, "bash", "-c", command]).await
}

/// Lets a node that is a container of this machine's Docker go on, if it is frozen.
pub(super) async fn thaw(node: &str) -> anyhow::Result<()> {
    let paused = program::output("docker", &["inspect", "--format", "{{.State.Paused}}", node]).await?;
    if paused.trim() == "true" {
        program::output("docker", &["unpause", node]).await.with_context(|| format!("thawing {node}"))?;
    }
    Ok(())
}

/// The rule of iptables' table `nat` that lets a node's pods reach the proxy at this address.
pub(super) fn proxy_rule(address: &str) -> String {
    format!("POSTROUTING -d {address} -j MASQUERADE")
}

/// Whether the pod passes its readiness probe and is not on its way out.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready =
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

/// How many of a resource kubelet offers.
fn offered(node: &Node, resource: &str) -> usize {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let quantity = allocatable.and_then(|all| all.get(resource));
    quantity.and_then(|quantity| quantity.0.parse().ok()).unwrap_or(0)
}

fn offers_its_report(node: &Node) -> bool {
    let text = node.metadata.annotations.as_ref().and_then(|all| all.get(names::NODE_REPORT));
    let Some(report) = text.and_then(|text| NodeReport::parse(text).ok()) else { return false };
    let healthy = report.devices.iter().filter(|device| device.health == Health::Healthy).count();
    healthy > 0 && offered(node, names::NEURON) == healthy && offered(node, names::NEURONCORE) >= healthy
}

/// Whether kubelet has called the node ready later than that.
fn is_heard_of(node: &Node, since: Timestamp) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.into_iter().filter(|condition| condition.type_ == "Ready");
    // Times in a status are whole seconds, rounded down.
    ready.any(|condition| {
        condition.status == "True"
            && condition.last_heartbeat_time.as_ref().is_some_and(|time| time.0 > since)
    })
}
