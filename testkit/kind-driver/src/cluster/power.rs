//! Whole nodes: frozen, thawed, restarted.

use anyhow::Context as _;

use super::{Cluster, node};
use crate::program;

impl Cluster {
    /// Freezes a node with everything on it: to all others it is away.
    ///
    /// # Errors
    /// It is frozen already, or there is no such node.
    pub async fn freeze(&self, node: &str) -> anyhow::Result<()> {
        program::output("docker", &["pause", node]).await.with_context(|| format!("freezing {node}"))?;
        Ok(())
    }

    /// Lets a node go on, if it is frozen.
    ///
    /// # Errors
    /// There is no such node.
    pub async fn thaw(&self, node: &str) -> anyhow::Result<()> {
        node::thaw(node).await
    }

    /// Restarts a node like a machine that loses its power: nothing on it is told before. It is not waited for.
    ///
    /// # Errors
    /// There is no such node.
    pub async fn reboot(&self, node: &str) -> anyhow::Result<()> {
        program::output("docker", &["restart", "-t", "0", node]).await?;
        Ok(())
    }
}
