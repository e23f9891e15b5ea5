//! The program whose clusters these are. Its name is in every path of theirs, by which they are found again.

use std::path::PathBuf;

use anyhow::bail;

use crate::{guard, program};

/// A folder in a cluster's folder that is there from before the cluster is made until it is gone: with it, a cluster is
/// the owner's.
const SCHEDULER_FOLDER: &str = "scheduler";

/// A program that makes clusters, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    name: &'static str,
}

impl Owner {
    /// The program of this name, which must serve as part of a path.
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// The prefix of everything that it makes, such as `my-tests`.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// What belongs to one of its clusters on this host: `OWNER-CLUSTER` in the folder of temporary files.
    pub fn folder(self, cluster: &str) -> PathBuf {
        std::env::temp_dir().join(format!("{}-{cluster}", self.name))
    }

    /// The kubeconfig of one of its clusters.
    pub fn kubeconfig(self, cluster: &str) -> PathBuf {
        self.folder(cluster).join("kubeconfig")
    }

    /// Where what is kept of failures lies, a folder for each cluster.
    pub fn evidence_folder(self) -> PathBuf {
        std::env::temp_dir().join(format!("{}-failures", self.name))
    }

    /// The host's folder that the control plane's node has as [`Self::folder_in_node`].
    pub fn scheduler_folder(self, cluster: &str) -> PathBuf {
        self.folder(cluster).join(SCHEDULER_FOLDER)
    }

    /// Where a control plane's node and its scheduler have the scheduler's configuration.
    pub fn folder_in_node(self) -> String {
        format!("/etc/{}", self.name)
    }

    /// Whether a run of this program made a cluster of that name, or began to.
    pub fn has_made(self, cluster: &str) -> bool {
        self.scheduler_folder(cluster).exists()
    }

    /// The clusters that have a folder on this host.
    pub(crate) fn names(self) -> Vec<String> {
        let prefix = format!("{}-", self.name);
        let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
        let names =
            entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix(&prefix).map(str::to_owned));
        names.filter(|name| self.has_made(name)).collect()
    }

    /// Its clusters that kind has, by name.
    ///
    /// # Errors
    /// kind or Docker does not answer.
    pub async fn clusters(self) -> anyhow::Result<Vec<String>> {
        Ok(all_clusters().await?.into_iter().filter(|name| self.kubeconfig(name).exists()).collect())
    }

    /// Deletes the cluster of that name and its folder, and makes sure that both are gone.
    ///
    /// # Errors
    /// There is no such cluster, somebody else made it, or something of it stays.
    pub async fn take_down(self, cluster: &str) -> anyhow::Result<()> {
        match (is_there(cluster).await?, self.has_made(cluster)) {
            (false, false) => {
                bail!("there is no cluster {cluster:?}; `kind get clusters` shows those there are")
            }
            (true, false) => bail!(
                "kind cluster {cluster:?} was not made by {}: {} is not there; if it may go: \
                 kind delete cluster --name {cluster}",
                self.name,
                self.folder(cluster).display()
            ),
            (_, true) => {}
        }
        guard::delete(self, cluster).await?;
        let left = guard::left_behind(self, cluster).await?;
        if !left.is_empty() {
            bail!("left behind of cluster {cluster:?}: {}", left.join(", "));
        }
        Ok(())
    }

    /// What of one of its clusters is still there; empty once nothing stayed behind.
    ///
    /// # Errors
    /// kind or Docker does not answer.
    pub async fn left_behind(self, cluster: &str) -> anyhow::Result<Vec<String>> {
        guard::left_behind(self, cluster).await
    }
}

/// Whether kind has a cluster of that name, whoever made it.
///
/// # Errors
/// kind or Docker does not answer.
pub async fn is_there(cluster: &str) -> anyhow::Result<bool> {
    Ok(all_clusters().await?.iter().any(|other| other == cluster))
}

/// Every cluster that kind has.
async fn all_clusters() -> anyhow::Result<Vec<String>> {
    let names = program::output("kind", &["get", "clusters"]).await?;
    Ok(names.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_a_cluster_has_its_owners_name() {
        let owner = Owner::new("my-tests");
        let folder = std::env::temp_dir().join("my-tests-demo");
        assert_eq!(owner.folder("demo"), folder);
        assert_eq!(owner.kubeconfig("demo"), folder.join("kubeconfig"));
        assert_eq!(owner.scheduler_folder("demo"), folder.join("scheduler"));
        assert_eq!(owner.evidence_folder(), std::env::temp_dir().join("my-tests-failures"));
        assert_eq!(owner.folder_in_node(), "/etc/my-tests");
    }
}
