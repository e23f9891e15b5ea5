//! Sees to it that nothing of a cluster stays behind: deleted when the run ends, by an error, a panic or a signal too.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::program;

/// Times that a cluster's deletion is tried. More than one: a `kind create` that was killed may have asked Docker for
/// a node that it makes a moment later.
const TRIES: usize = 5;
/// What the folders of clusters are called, before the cluster's name.
const FOLDER: &str = "neuron-e2e-";

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
        guard.make_folder()?;
        Ok(guard)
    }

    fn make_folder(&self) -> anyhow::Result<()> {
        let path = self.scheduler_folder();
        std::fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))
    }

    /// Deletes what an earlier run left of the cluster.
    pub(super) async fn begin_anew(&self) -> anyhow::Result<()> {
        delete(&self.name).await?;
        self.make_folder()
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

    /// Deletes the cluster until two looks in a row find nothing of it; whether they did.
    fn delete_now(&self) -> bool {
        let kubeconfig = self.kubeconfig();
        let delete = ["delete", "cluster", "--name", &self.name, "--kubeconfig", &kubeconfig];
        let filter = format!("label=io.x-k8s.kind.cluster={}", self.name);
        let mut empty = 0;
        for _ in 0..TRIES {
            let deleted = quietly("kind", &delete).is_some();
            let left = quietly("docker", &["ps", "--all", "--quiet", "--filter", &filter]);
            empty = if deleted && left.is_some_and(|left| left.trim().is_empty()) { empty + 1 } else { 0 };
            if empty == 2 {
                return true;
            }
        }
        false
    }
}

/// Runs a program to its end; its output, none if it failed. In a process group of its own: a second Ctrl-C must not
/// end what cleans up.
fn quietly(name: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What belongs to a cluster on this host.
pub(super) fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{FOLDER}{name}"))
}

/// The clusters that have a folder on this host.
pub(super) fn names() -> Vec<String> {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().join("scheduler").exists())
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(FOLDER).map(str::to_owned))
        .collect()
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
        } else if !self.delete_now() {
            eprintln!("neuron-e2e: cluster stays behind: kind delete cluster --name {}", self.name);
        } else if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("neuron-e2e: {} stays behind: {error}", self.folder.display());
        }
    }
}

/// Deletes an earlier run's cluster and its folder.
pub(super) async fn delete(name: &str) -> anyhow::Result<()> {
    let folder = folder(name);
    let kubeconfig = folder.join("kubeconfig").display().to_string();
    program::output("kind", &["delete", "cluster", "--name", name, "--kubeconfig", &kubeconfig]).await?;
    match tokio::fs::remove_dir_all(&folder).await {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The cluster, containers and folder of that name that are still there; empty once nothing stayed behind.
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
