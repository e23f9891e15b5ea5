//! Keeps what a failed scenario leaves to look at, in one folder: logs of every part, objects, kubelet's folders.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};
use neuron_core::names;

use super::KindCluster;
use super::conformance::pod_resources;
use super::install::SYSTEM;
use neuron_e2e_engine::cluster::NAMESPACE;

/// How the line begins that says where the evidence is, or why there is none.
const KEPT: &str = "evidence: ";
const NOT_KEPT: &str = "no evidence: ";
/// Lines kept of one log.
const LINES: i64 = 2000;

/// Whether a line of a scenario's failures only says where to look further.
pub(crate) fn is_pointer(line: &str) -> bool {
    line.starts_with(KEPT) || line.starts_with(NOT_KEPT)
}

impl KindCluster {
    /// The error, with where to find what there is to see of it.
    pub(super) async fn with_evidence(&self, of: &str, error: anyhow::Error) -> anyhow::Error {
        error.context(self.evidence(of).await)
    }

    /// Keeps what there is to see, and says where, or why there is nothing.
    pub(super) async fn evidence(&self, of: &str) -> String {
        match self.keep_evidence(of).await {
            Ok(folder) => format!("{KEPT}{}", folder.display()),
            Err(why) => format!("{NOT_KEPT}{why:#}"),
        }
    }

    /// Collects into a folder of the scenario's name and gives its path. What cannot be had is written down as such.
    async fn keep_evidence(&self, scenario: &str) -> anyhow::Result<PathBuf> {
        let folder = std::env::temp_dir()
            .join("neuron-e2e-failures")
            .join(&self.name)
            .join(scenario.replace('/', "-"));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        for (file, arguments) in [
            ("pods.yaml", &["get", "pods", "-A", "-o", "yaml"][..]),
            ("nodes.yaml", &["get", "nodes", "-o", "yaml"]),
            ("events.txt", &["get", "events", "-A", "--sort-by=.lastTimestamp", "-o", "wide"]),
            ("config-maps.yaml", &["get", "configmaps", "-n", SYSTEM, "-o", "yaml"]),
        ] {
            save(&folder, file, self.kubectl(arguments, "").await)?;
        }
        for namespace in [NAMESPACE, SYSTEM] {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            match pods.list(&ListParams::default()).await {
                Ok(listed) => {
                    for pod in listed.items {
                        keep_logs(&folder, &pods, &pod).await?;
                    }
                }
                // The API server may be what is broken: then as kubelet keeps them.
                Err(error) => {
                    save(&folder, &format!("logs-{namespace}.txt"), Err(error.into()))?;
                    for node in &self.nodes {
                        let file = format!("{node}-logs-{namespace}.txt");
                        save(&folder, &file, self.in_node(node, &kept_logs(namespace)).await)?;
                    }
                }
            }
        }
        for node in &self.workers {
            let listing = "ls -la /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources; \
                           cat /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
            save(&folder, &format!("{node}-kubelet-folders.txt"), self.in_node(node, listing).await)?;
            for resource in [names::NEURON, names::NEURONCORE] {
                let held = pod_resources::list(node, resource).await.map(|held| format!("{held:#?}\n"));
                let file = format!("{node}-podresources-{}.txt", resource.replace('/', "-"));
                save(&folder, &file, held)?;
            }
        }
        for node in &self.nodes {
            for unit in ["kubelet", "containerd"] {
                let log = format!(
                    "tail -n {LINES} /var/log/{unit}.log 2>/dev/null || journalctl -u {unit} -n {LINES}"
                );
                save(&folder, &format!("{node}-{unit}.txt"), self.in_node(node, &log).await)?;
            }
        }
        Ok(folder)
    }
}

/// Prints the logs that a node keeps of a namespace's containers.
fn kept_logs(namespace: &str) -> String {
    format!(
        r#"for file in /var/log/pods/{namespace}_*/*/*.log; do echo "== $file"; tail -n {LINES} "$file"; done"#
    )
}

/// What every container of the pod said, and what it had said before it was started again.
async fn keep_logs(folder: &Path, pods: &Api<Pod>, pod: &Pod) -> anyhow::Result<()> {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let statuses = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
    for container in statuses {
        let lives: &[bool] = if container.restart_count > 0 { &[false, true] } else { &[false] };
        for previous in lives.iter().copied() {
            let params = LogParams {
                container: Some(container.name.clone()),
                tail_lines: Some(LINES),
                previous,
                ..LogParams::default()
            };
            let log = pods.logs(&name, &params).await.map_err(anyhow::Error::from);
            let before = if previous { "-before" } else { "" };
            save(folder, &format!("log-{name}-{}{before}.txt", container.name), log)?;
        }
    }
    Ok(())
}

fn save(folder: &Path, file: &str, text: anyhow::Result<String>) -> anyhow::Result<()> {
    let path = folder.join(file);
    let text = text.unwrap_or_else(|error| format!("not to be had: {error:#}\n"));
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}
