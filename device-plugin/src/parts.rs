//! The plugin's parts: tasks that run until the plugin ends. One that ends before takes the plugin with it, since nothing else
//! would do its work. Owned by `run`.

use runtime::system::{TaskEnded, TaskSet};
use runtime::{System, reached};
use tokio_util::sync::CancellationToken;

/// Tasks by name. Dropping them ends them.
pub(crate) struct Parts {
    tasks: TaskSet<&'static str>,
}

/// A part that ended though nobody had told it to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartEnded {
    #[error("the {0} ended before the plugin")]
    Early(&'static str),
    #[error("a part of the plugin ended: {0}")]
    Broke(#[from] TaskEnded),
}

impl Parts {
    /// No parts yet.
    pub(crate) fn new(system: System) -> Self {
        Parts { tasks: TaskSet::new(system) }
    }

    /// Starts a part.
    pub(crate) fn spawn(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            part.await;
            name
        });
    }

    /// Does some work beside the parts. None if `shutdown` came first.
    ///
    /// # Errors
    /// A part ended first.
    pub(crate) async fn beside<T>(
        &mut self,
        shutdown: &CancellationToken,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, PartEnded> {
        tokio::select! {
            // Parts end because of the shutdown, so that comes first.
            biased;
            () = shutdown.cancelled() => Ok(None),
            ended = self.early_end() => Err(ended),
            done = work => Ok(Some(done)),
        }
    }

    async fn early_end(&mut self) -> PartEnded {
        let ended = match self.tasks.join_next().await {
            Some(Ok(name)) => PartEnded::Early(name),
            Some(Err(why)) => PartEnded::Broke(why),
            None => std::future::pending().await,
        };
        reached("plugin: part ended early");
        ended
    }

    /// Waits for the end of all parts, which have been told to end.
    ///
    /// # Errors
    /// The first that did not end by itself.
    pub(crate) async fn end(mut self) -> Result<(), PartEnded> {
        let mut all = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            all = all.and(ended.map(drop).map_err(PartEnded::from));
        }
        all
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "no part touches the machine")]
mod tests {
    use std::future::pending;

    use super::*;

    /// What becomes of work that never ends, beside a part that lives as given.
    async fn beside(part: impl Future<Output = ()> + Send + 'static) -> Result<Option<()>, PartEnded> {
        let mut parts = Parts::new(System::real());
        parts.spawn("pod watch", part);
        parts.spawn("upkeep", pending());
        parts.beside(&CancellationToken::new(), pending::<()>()).await
    }

    #[tokio::test]
    async fn a_part_that_ends_or_panics_ends_the_work_and_is_named() {
        let ended = beside(async {}).await.unwrap_err();
        assert_eq!(ended.to_string(), "the pod watch ended before the plugin");
        let panicked = beside(async { panic!("no pods") }).await.unwrap_err();
        assert_eq!(panicked.to_string(), "a part of the plugin ended: the task panicked: no pods");
    }

    #[tokio::test]
    async fn a_part_that_ends_with_the_plugin_is_no_error() {
        let (shutdown, mut parts) = (CancellationToken::new(), Parts::new(System::real()));
        parts.spawn("pod watch", shutdown.clone().cancelled_owned());
        shutdown.cancel();
        assert_eq!(parts.beside(&shutdown, pending::<()>()).await, Ok(None));
        assert_eq!(parts.end().await, Ok(()));
    }
}
