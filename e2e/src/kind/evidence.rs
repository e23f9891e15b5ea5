//! Keeps what a failed scenario leaves to look at, in one folder: logs of every part, objects, kubelet's folders.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};

use super::KindCluster;
use super::install::SYSTEM;
use crate::run::NAMESPACE;

/// Lines kept of one log.
const LINES: i64 = 2000;

impl KindCluster {
    /// Collects into a folder of the scenario's name and gives its path. What cannot be had is written down as such.
    pub(super) async fn keep_evidence(&self, scenario: &str) -> anyhow::Result<PathBuf> {
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
            for pod in pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default() {
                let name = pod.metadata.name.unwrap_or_default();
                for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
                    let params = LogParams {
                        container: Some(container.name.clone()),
                        tail_lines: Some(LINES),
                        ..LogParams::default()
                    };
                    let log = pods.logs(&name, &params).await.map_err(anyhow::Error::from);
                    save(&folder, &format!("log-{name}-{}.txt", container.name), log)?;
                }
            }
        }
        for node in &self.workers {
            let listing = "ls -la /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources; \
                           cat /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
            save(&folder, &format!("{node}-kubelet-folders.txt"), self.in_node(node, listing).await)?;
            let log = format!(
                "tail -n {LINES} /var/log/kubelet.log 2>/dev/null || journalctl -u kubelet -n {LINES}"
            );
            save(&folder, &format!("{node}-kubelet.txt"), self.in_node(node, &log).await)?;
        }
        Ok(folder)
    }
}

fn save(folder: &Path, file: &str, text: anyhow::Result<String>) -> anyhow::Result<()> {
    let path = folder.join(file);
    let text = text.unwrap_or_else(|error| format!("not to be had: {error:#}\n"));
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}
