//! Sees to it that nothing of a cluster stays behind: deleted when the run ends, by an error, a panic or a signal too.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::program;

/// Deletes its cluster when dropped.
pub(super) struct Guard {
    name: String,
    keep: bool,
    /// The cluster is no longer this guard's business.
    released: bool,
    folder: PathBuf,
}

impl Guard {
    /// For the cluster of this name, which need not be there yet. Its folder is made.
    pub(super) fn new(name: &str, keep: bool) -> anyhow::Result<Self> {
        let guard = Self { name: name.to_owned(), keep, released: false, folder: folder(name) };
        let path = guard.scheduler_folder();
        std::fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(guard)
    }

    /// The path of the cluster's kubeconfig.
    pub(super) fn kubeconfig(&self) -> String {
        self.folder.join("kubeconfig").display().to_string()
    }

    /// The folder that the control plane's node has as `/etc/neuron-e2e`.
    pub(super) fn scheduler_folder(&self) -> PathBuf {
        scheduler_folder(&self.name)
    }

    /// Leaves the cluster to whoever takes it down by name.
    pub(super) fn release(&mut self) {
        self.released = true;
    }

    /// Whether the cluster came up whole, so that it can be used again.
    pub(super) fn is_complete(&self) -> bool {
        self.folder.join("complete").exists()
    }

    /// Says that the cluster came up whole.
    pub(super) fn set_complete(&self) -> anyhow::Result<()> {
        std::fs::write(self.folder.join("complete"), "").context("marking the cluster as complete")
    }
}

/// What belongs to a cluster on this host.
pub(super) fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("neuron-e2e-{name}"))
}

/// The folder that the control plane's node has as `/etc/neuron-e2e`: where it is, a cluster is ours.
pub(super) fn scheduler_folder(name: &str) -> PathBuf {
    folder(name).join("scheduler")
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        if self.keep && self.is_complete() {
            eprintln!("cluster {} stays: export KUBECONFIG={}", self.name, self.kubeconfig());
            return;
        }
        let mut kind = Command::new("kind");
        kind.args(["delete", "cluster", "--name", &self.name, "--kubeconfig", &self.kubeconfig()]);
        match kind.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Ok(status) if status.success() => {
                if let Err(error) = std::fs::remove_dir_all(&self.folder) {
                    eprintln!("neuron-e2e: {} stays behind: {error}", self.folder.display());
                }
            }
            _ => eprintln!("neuron-e2e: cluster stays behind: kind delete cluster --name {}", self.name),
        }
    }
}

/// Deletes an earlier run's cluster.
pub(super) async fn delete(name: &str) -> anyhow::Result<()> {
    let kubeconfig = folder(name).join("kubeconfig").display().to_string();
    program::output("kind", &["delete", "cluster", "--name", name, "--kubeconfig", &kubeconfig]).await?;
    let complete = folder(name).join("complete");
    match tokio::fs::remove_file(&complete).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", complete.display()))
        }
        _ => Ok(()),
    }
}

/// The clusters and folders of that name that are still there; empty once nothing stayed behind.
pub(super) async fn left_behind(name: &str) -> anyhow::Result<Vec<String>> {
    let clusters = program::output("kind", &["get", "clusters"]).await?;
    let mut left: Vec<String> =
        clusters.lines().filter(|line| *line == name).map(|line| format!("kind cluster {line}")).collect();
    let filter = format!("label=io.x-k8s.kind.cluster={name}");
    let containers = program::output("docker", &["ps", "--all", "--quiet", "--filter", &filter]).await?;
    left.extend(containers.lines().map(|id| format!("container {id}")));
    let folder = folder(name);
    left.extend(folder.exists().then(|| folder.display().to_string()));
    Ok(left)
}
