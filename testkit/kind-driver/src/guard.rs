//! Sees to it that nothing of a cluster stays behind: deleted when the run ends, by an error, a panic or a signal too.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::{Owner, program, report};

/// Times that a cluster's deletion is tried. More than one: a `kind create` that was killed may have asked Docker for
/// a node that it makes a moment later.
const TRIES: usize = 5;

/// Deletes its cluster when dropped.
pub(crate) struct Guard {
    owner: Owner,
    name: String,
    keep: bool,
    /// The cluster is no longer this guard's business.
    released: bool,
    folder: PathBuf,
}

impl Guard {
    /// A guard for the cluster of this name, which need not be there yet. Its folder is made.
    pub(crate) fn new(owner: Owner, name: &str, keep: bool) -> anyhow::Result<Self> {
        let guard = Self { owner, name: name.to_owned(), keep, released: false, folder: owner.folder(name) };
        guard.make_folder()?;
        Ok(guard)
    }

    fn make_folder(&self) -> anyhow::Result<()> {
        let path = self.owner.scheduler_folder(&self.name);
        std::fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))
    }

    /// Deletes what an earlier run left of the cluster.
    pub(crate) async fn begin_anew(&self) -> anyhow::Result<()> {
        delete(self.owner, &self.name).await?;
        self.make_folder()
    }

    /// The path of the cluster's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> String {
        self.folder.join("kubeconfig").display().to_string()
    }

    /// Leaves the cluster to whoever takes it down by name.
    pub(crate) fn release(&mut self) {
        self.released = true;
    }

    /// Whether the cluster came up whole, so that it can be used again.
    pub(crate) fn is_complete(&self) -> bool {
        self.folder.join("complete").exists()
    }

    /// Says that the cluster came up whole.
    pub(crate) fn set_complete(&self) -> anyhow::Result<()> {
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

impl Drop for Guard {
    fn drop(&mut self) {
        if self.released {
            return;
        }
        if self.keep && self.is_complete() {
            report::line(format_args!(
                "cluster {} stays: export KUBECONFIG={}",
                self.name,
                self.kubeconfig()
            ));
        } else if !self.delete_now() {
            let (owner, name) = (self.owner.name(), &self.name);
            report::line(format_args!("{owner}: cluster stays behind: kind delete cluster --name {name}"));
        } else if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            report::line(format_args!(
                "{}: {} stays behind: {error}",
                self.owner.name(),
                self.folder.display()
            ));
        }
    }
}

/// Deletes an earlier run's cluster and its folder.
pub(crate) async fn delete(owner: Owner, name: &str) -> anyhow::Result<()> {
    let folder = owner.folder(name);
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
pub(crate) async fn left_behind(owner: Owner, name: &str) -> anyhow::Result<Vec<String>> {
    let clusters = program::output("kind", &["get", "clusters"]).await?;
    let mut left: Vec<String> =
        clusters.lines().filter(|line| *line == name).map(|line| format!("kind cluster {line}")).collect();
    let filter = format!("label=io.x-k8s.kind.cluster={name}");
    let containers = program::output("docker", &["ps", "--all", "--quiet", "--filter", &filter]).await?;
    left.extend(containers.lines().map(|id| format!("container {id}")));
    let folder = owner.folder(name);
    left.extend(folder.exists().then(|| folder.display().to_string()));
    Ok(left)
}
