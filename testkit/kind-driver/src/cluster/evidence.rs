//! Keeps what a failure leaves to look at, in one folder: logs of every part, objects, kubelet's folders.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, LogParams};

use super::Cluster;
use crate::pod_resources;
use crate::status::containers;

/// What is kept beside pods, nodes, events, kubelet's folders and the logs of kubelet and containerd.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Namespaces whose pods' logs are kept.
    pub namespaces: &'a [&'a str],
    /// Files of what kubectl prints: the file's name, kubectl's arguments.
    pub objects: &'a [(&'a str, &'a [&'a str])],
    /// Resources of device plugins of which it is kept who has what by kubelet's podresources.
    pub resources: &'a [&'a str],
}

/// How the line begins that says where the evidence is, or why there is none.
const KEPT: &str = "evidence: ";
const NOT_KEPT: &str = "no evidence: ";
/// Lines kept of one log.
const LINES: i64 = 2000;

/// Whether a line of a text about a failure only says where to look further.
pub fn is_pointer(line: &str) -> bool {
    line.starts_with(KEPT) || line.starts_with(NOT_KEPT)
}

impl Cluster {
    /// The error, with where to find what there is to see of it.
    pub async fn with_evidence(&self, of: &str, what: Evidence<'_>, error: anyhow::Error) -> anyhow::Error {
        error.context(self.evidence(of, what).await)
    }

    /// Keeps what there is to see, and says where, or why there is nothing.
    pub async fn evidence(&self, of: &str, what: Evidence<'_>) -> String {
        match self.keep_evidence(of, what).await {
            Ok(folder) => format!("{KEPT}{}", folder.display()),
            Err(why) => format!("{NOT_KEPT}{why:#}"),
        }
    }

    /// Collects into a folder of this name and gives its path. What cannot be had is written down as such.
    async fn keep_evidence(&self, of: &str, what: Evidence<'_>) -> anyhow::Result<PathBuf> {
        let folder = self.owner.evidence_folder().join(&self.name).join(of.replace('/', "-"));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("emptying {}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let of_every_cluster: [(&str, &[&str]); 3] = [
            ("pods.yaml", &["get", "pods", "-A", "-o", "yaml"]),
            ("nodes.yaml", &["get", "nodes", "-o", "yaml"]),
            ("events.txt", &["get", "events", "-A", "--sort-by=.lastTimestamp", "-o", "wide"]),
        ];
        for (file, arguments) in of_every_cluster.iter().chain(what.objects) {
            save(&folder, file, self.kubectl(arguments, "").await)?;
        }
        for namespace in what.namespaces {
            self.keep_namespace(&folder, namespace).await?;
        }
        for node in self.workers() {
            let listing = "ls -la /var/lib/kubelet/device-plugins /var/lib/kubelet/pod-resources; \
                           cat /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
            save(&folder, &format!("{node}-kubelet-folders.txt"), self.exec(node, listing).await)?;
            for resource in what.resources {
                let assigned = pod_resources::list(node, resource).await.map(|all| format!("{all:#?}\n"));
                let file = format!("{node}-podresources-{}.txt", resource.replace('/', "-"));
                save(&folder, &file, assigned)?;
            }
        }
        for node in &self.nodes {
            for unit in ["kubelet", "containerd"] {
                let log = format!(
                    "tail -n {LINES} /var/log/{unit}.log 2>/dev/null || journalctl -u {unit} -n {LINES}"
                );
                save(&folder, &format!("{node}-{unit}.txt"), self.exec(node, &log).await)?;
            }
        }
        Ok(folder)
    }

    /// The logs of a namespace's pods.
    async fn keep_namespace(&self, folder: &Path, namespace: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        match pods.list(&ListParams::default()).await {
            Ok(listed) => {
                for pod in listed.items {
                    keep_logs(folder, &pods, &pod).await?;
                }
            }
            // The API server may be what is broken: then as kubelet keeps them.
            Err(error) => {
                save(folder, &format!("logs-{namespace}.txt"), Err(error.into()))?;
                for node in &self.nodes {
                    let file = format!("{node}-logs-{namespace}.txt");
                    save(folder, &file, self.exec(node, &kept_logs(namespace)).await)?;
                }
            }
        }
        Ok(())
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
    for container in containers(pod) {
        let has_ended_before = container.restart_count > 0;
        for previous in [false, true].into_iter().take(1 + usize::from(has_ended_before)) {
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
