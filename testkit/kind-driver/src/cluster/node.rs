//! Commands in nodes, processes on them, and the objects that stand for them.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::Value;

use super::Cluster;
use crate::{WAIT, program};

/// Bytes that Linux keeps of a process' name.
const PROCESS_NAME: usize = 15;

/// Runs a shell command in a node and gives its standard output.
///
/// # Errors
/// There is no such node, or the command failed; then with what it printed.
pub async fn exec(node: &str, command: &str) -> anyhow::Result<String> {
    program::output("docker", &["exec", node, "bash", "-c", command]).await
}

/// Lets a node go on, if it is frozen.
///
/// # Errors
/// There is no such node.
pub async fn thaw(node: &str) -> anyhow::Result<()> {
    let paused = program::output("docker", &["inspect", "--format", "{{.State.Paused}}", node]).await?;
    if paused.trim() == "true" {
        program::output("docker", &["unpause", node]).await.with_context(|| format!("thawing {node}"))?;
    }
    Ok(())
}

impl Cluster {
    /// Runs a shell command in a node and gives its standard output.
    ///
    /// # Errors
    /// There is no such node, or the command failed; then with what it printed.
    pub async fn exec(&self, node: &str, command: &str) -> anyhow::Result<String> {
        exec(node, command).await
    }

    /// The id of the newest process of that name on a node, if one runs.
    ///
    /// # Errors
    /// The node does not answer.
    pub async fn process(&self, node: &str, name: &str) -> anyhow::Result<Option<u32>> {
        let ids = self.exec(node, &format!("pgrep --newest -x {} || :", process_name(name))).await?;
        Ok(ids.trim().parse().ok())
    }

    /// Kills every process of this program on these nodes, as the system does that runs out of memory.
    ///
    /// # Errors
    /// None runs on any of them, or a node does not answer.
    pub async fn kill(&self, program: &str, nodes: &[String]) -> anyhow::Result<()> {
        let mut killed = false;
        for node in nodes {
            let kill = format!("if pkill -KILL -x {}; then echo killed; fi", process_name(program));
            let said = self.exec(node, &kill).await;
            killed |= !said.with_context(|| format!("killing {program} on {node}"))?.trim().is_empty();
        }
        anyhow::ensure!(killed, "{program} was to be killed, and runs nowhere");
        Ok(())
    }

    /// The object that stands for a node.
    ///
    /// # Errors
    /// There is none, or the API server does not answer.
    pub async fn node(&self, node: &str) -> anyhow::Result<Node> {
        Api::all(self.client()).get(node).await.with_context(|| format!("reading node {node}"))
    }

    /// Merges this into a node's object.
    ///
    /// # Errors
    /// There is none, or the API server refuses the patch.
    pub async fn patch_node(&self, node: &str, patch: &Value) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        let patched = nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.with_context(|| format!("patching node {node}"))?;
        Ok(())
    }

    /// Waits until every worker's kubelet has made its Node: kind is done when kubelet has its certificate, which on a
    /// busy machine is earlier.
    ///
    /// # Errors
    /// One has not in time.
    pub async fn workers_have_joined(&self) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client());
        WAIT.until("every worker to join", async || {
            let known = nodes.list_metadata(&ListParams::default()).await?;
            let known: Vec<String> = known.into_iter().filter_map(|node| node.metadata.name).collect();
            Ok(self.workers().iter().all(|worker| known.contains(worker)))
        })
        .await
    }

    /// The pods of a namespace that a label selector chooses on a node.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn pods_on(&self, node: &str, namespace: &str, selector: &str) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        let filter = ListParams::default().labels(selector).fields(&format!("spec.nodeName={node}"));
        Ok(pods.list(&filter).await.with_context(|| format!("pods with {selector} on {node}"))?.items)
    }
}

/// A program's name as Linux keeps it of its process.
pub(super) fn process_name(program: &str) -> &str {
    program.get(..PROCESS_NAME).unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::process_name;

    #[test]
    fn a_process_is_looked_for_by_as_much_of_its_name_as_linux_keeps() {
        assert_eq!(process_name("example-device-plugin"), "example-device-");
        assert_eq!(process_name("kubelet"), "kubelet");
    }
}
