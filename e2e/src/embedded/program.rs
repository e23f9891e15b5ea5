//! A production program that runs as a task of this process.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long a program may take to end cleanly; a real one gets 30 s before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A running program.
pub(super) struct Program {
    name: &'static str,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Program {
    /// Starts what `run` makes of the token that tells it to end.
    pub(super) fn start<F>(name: &'static str, run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(shutdown.clone()));
        Self { name, shutdown, task }
    }

    /// Tells it to end and waits until it has. An error if it failed, or does not end within its grace.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        match tokio::time::timeout(GRACE, &mut self.task).await {
            Ok(ended) => ended.with_context(|| format!("{} broke off", self.name))?,
            Err(_) => {
                self.task.abort();
                bail!("{} did not end within {} s", self.name, GRACE.as_secs());
            }
        }
    }
}
