//! Several clusters of one run, side by side: their names, and what is done before the first and after the last of them.

use std::collections::BTreeSet;

use anyhow::Context as _;
use futures::future::try_join_all;

use crate::{Owner, guard, program};

/// The clusters that a run makes.
#[derive(Clone, Debug)]
pub struct Pool {
    owner: Owner,
    name: String,
    names: Vec<String>,
}

impl Pool {
    /// So many clusters: NAME, NAME-2, NAME-3.
    pub fn new(owner: Owner, name: &str, count: usize) -> Self {
        let member = |number: usize| if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        Self { owner, name: name.to_owned(), names: (1..=count).map(member).collect() }
    }

    /// The clusters' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many of the clusters are there already.
    pub async fn standing(&self) -> usize {
        // There are none without kind, which the doctor reports.
        let clusters = program::output("kind", &["get", "clusters"]).await.unwrap_or_default();
        self.names.iter().filter(|member| clusters.lines().any(|name| name == *member)).count()
    }

    /// Deletes what an earlier run of this name has left, however many clusters it had.
    ///
    /// # Errors
    /// kind or Docker does not answer, or a folder cannot be removed.
    pub async fn clear(&self) -> anyhow::Result<()> {
        try_join_all(self.all_names().await?.iter().map(|name| guard::delete(self.owner, name)))
            .await
            .context("deleting what an earlier run left")?;
        Ok(())
    }

    /// Everything of this name's clusters that is still there; empty once nothing stayed behind. `volumes` are those
    /// that the clusters had.
    ///
    /// # Errors
    /// kind or Docker does not answer.
    pub async fn left_behind(&self, volumes: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
        let mut left = Vec::new();
        for name in self.all_names().await? {
            left.extend(guard::left_behind(self.owner, &name).await?);
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
    async fn all_names(&self) -> anyhow::Result<BTreeSet<String>> {
        let clusters = program::output("kind", &["get", "clusters"]).await?;
        let found = clusters.lines().map(str::to_owned).chain(self.owner.names());
        Ok(self.names.iter().cloned().chain(found.filter(|name| self.is_ours(name))).collect())
    }

    /// Whether a run of this name makes clusters of that name. `NAME-2` is only taken for one of them if a run's
    /// folder says so: somebody else's cluster may be called that.
    fn is_ours(&self, name: &str) -> bool {
        match name.strip_prefix(&self.name) {
            Some("") => true,
            Some(rest) => {
                let number = rest.strip_prefix('-').and_then(|number| number.parse::<usize>().ok());
                number.is_some_and(|number| number > 1) && self.owner.folder(name).exists()
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(count: usize) -> Pool {
        Pool::new(Owner::new("kind-driver-tests"), "demo", count)
    }

    #[test]
    fn clusters_are_numbered_from_the_second_on() {
        assert_eq!(pool(3).names(), ["demo", "demo-2", "demo-3"]);
        assert_eq!(pool(0).names(), [""; 0]);
    }

    #[test]
    fn only_the_name_itself_and_numbers_behind_it_are_ours() {
        let pool = pool(1);
        assert!(pool.is_ours("demo"));
        // No run has left a folder for these.
        for other in ["demo-2", "demo-1", "demo-x", "demonstration", "other"] {
            assert!(!pool.is_ours(other), "{other}");
        }
    }

    #[test]
    fn a_number_is_ours_where_a_run_has_left_its_folder() {
        let pool = pool(1);
        let _left =
            tempfile::Builder::new().prefix("kind-driver-tests-demo-9").rand_bytes(0).tempdir().unwrap();
        assert!(pool.is_ours("demo-9"));
    }
}
