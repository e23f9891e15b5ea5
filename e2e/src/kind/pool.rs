//! The clusters of one run, side by side: their names, and what is done before the first and after the last of them.
//! Called by `session`.

use std::collections::BTreeSet;

use anyhow::Context as _;
use futures::future::try_join_all;

use super::{Options, guard, program};

/// Clusters of one run by default.
pub const CLUSTERS: usize = 3;

/// The clusters that a run makes.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    name: String,
    members: Vec<Options>,
}

impl Pool {
    /// One cluster for each size, in workers: NAME, NAME-2, NAME-3.
    pub(super) fn new(options: &Options, sizes: &[usize]) -> Self {
        let member = |(place, workers): (usize, &usize)| Options {
            name: if place == 0 { options.name.clone() } else { format!("{}-{}", options.name, place + 1) },
            workers: *workers,
            // Once for all of them, before the first.
            skip_images: true,
            ..options.clone()
        };
        Self { name: options.name.clone(), members: sizes.iter().enumerate().map(member).collect() }
    }

    /// How each cluster is made.
    pub(super) fn members(&self) -> &[Options] {
        &self.members
    }

    /// How many of the clusters are there already.
    pub(super) async fn standing(&self) -> usize {
        // Without kind there are none, which is told elsewhere.
        let clusters = program::output("kind", &["get", "clusters"]).await.unwrap_or_default();
        self.members.iter().filter(|member| clusters.lines().any(|name| name == member.name)).count()
    }

    /// Deletes what an earlier run of this name has left, however many clusters it had.
    pub(super) async fn clear(&self) -> anyhow::Result<()> {
        try_join_all(self.names().await?.iter().map(|name| guard::delete(name)))
            .await
            .context("deleting what an earlier run left")?;
        Ok(())
    }

    /// Everything of this name's clusters that is still there; empty once nothing stayed behind. `volumes` are those
    /// that the clusters had.
    pub(super) async fn left_behind(&self, volumes: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
        let mut left = Vec::new();
        for name in self.names().await? {
            left.extend(guard::left_behind(&name).await?);
        }
        if !volumes.is_empty() {
            let there = program::output("docker", &["volume", "ls", "--quiet"]).await?;
            left.extend(
                there.lines().filter(|name| volumes.contains(*name)).map(|name| format!("volume {name}")),
            );
        }
        Ok(left)
    }

    /// The names of the clusters, and of those of an earlier run, also where only their folder is left.
    async fn names(&self) -> anyhow::Result<BTreeSet<String>> {
        let clusters = program::output("kind", &["get", "clusters"]).await?;
        let mut names: BTreeSet<String> = self.members.iter().map(|member| member.name.clone()).collect();
        names.extend(
            clusters.lines().map(str::to_owned).chain(guard::names()).filter(|name| self.is_ours(name)),
        );
        Ok(names)
    }

    /// Whether a run of this name makes clusters of that name. `NAME-2` is only taken for one of them if a run's
    /// folder says so: somebody else's cluster may be called that.
    fn is_ours(&self, name: &str) -> bool {
        match name.strip_prefix(&self.name) {
            Some("") => true,
            Some(rest) => {
                let number = rest.strip_prefix('-').and_then(|number| number.parse::<usize>().ok());
                number.is_some_and(|number| number > 1) && guard::folder(name).exists()
            }
            None => false,
        }
    }
}

/// The volumes that Docker made for a cluster's nodes.
pub(super) async fn volumes(cluster: &str) -> anyhow::Result<Vec<String>> {
    let filter = format!("label=io.x-k8s.kind.cluster={cluster}");
    let nodes = program::output("docker", &["ps", "--all", "--quiet", "--filter", &filter]).await?;
    let format = r#"{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}"#;
    let arguments: Vec<&str> = ["inspect", "--format", format].into_iter().chain(nodes.lines()).collect();
    let names = program::output("docker", &arguments).await?;
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            name: "demo".into(),
            workers: 3,
            keep: false,
            node_image: None,
            skip_images: false,
            feature_gates: &[],
        }
    }

    #[test]
    fn clusters_are_numbered_from_the_second_on() {
        let pool = Pool::new(&options(), &[3, 1]);
        let members: Vec<(&str, usize)> =
            pool.members().iter().map(|member| (member.name.as_str(), member.workers)).collect();
        assert_eq!(members, [("demo", 3), ("demo-2", 1)]);
    }

    #[test]
    fn only_the_name_itself_and_numbers_behind_it_are_ours() {
        let pool = Pool::new(&options(), &[1]);
        assert!(pool.is_ours("demo"));
        // No run has left a folder for these.
        for other in ["demo-2", "demo-1", "demo-x", "demonstration", "other"] {
            assert!(!pool.is_ours(other), "{other}");
        }
    }
}
