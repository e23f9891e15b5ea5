//! The plugin's parts: tasks that run until the plugin ends. One that ends before takes the plugin with it, since nothing else
//! would do its work; so does a panic in any other task, without which the plugin would only look alive. Owned by `run`.

use runtime::system::{Panics, TaskEnded, TaskSet};
use runtime::{System, reached};
use tokio_util::sync::CancellationToken;

/// Tasks by name. Dropping them ends them.
pub(crate) struct Parts {
    tasks: TaskSet<&'static str>,
    /// Of these and of the plugin's other tasks, such as the calls of kubelet that they answer.
    panics: Panics,
}

/// A part that ended though nobody had told it to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartEnded {
    #[error("the {0} ended before the plugin")]
    Early(&'static str),
    #[error("a part of the plugin ended: {0}")]
    Broke(TaskEnded),
}

impl Parts {
    /// No parts yet, of a plugin that starts its tasks by `system`, which tells of their panics.
    pub(crate) fn new(system: System, panics: Panics) -> Self {
        Parts { tasks: TaskSet::new(system), panics }
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
        let next = async {
            match self.tasks.join_next().await {
                Some(Ok(name)) => PartEnded::Early(name),
                Some(Err(why)) => PartEnded::Broke(why),
                None => std::future::pending().await,
            }
        };
        let ended = tokio::select! {
            // The panic first: it is why a part may have ended.
            biased;
            panicked = self.panics.first() => PartEnded::Broke(panicked),
            ended = next => ended,
        };
        reached("plugin: part ended early");
        ended
    }

    /// Waits for the end of all parts, which have been told to end.
    ///
    /// # Errors
    /// The first that did not end by itself, or any task of the plugin's that has panicked.
    pub(crate) async fn end(mut self) -> Result<(), PartEnded> {
        let mut all = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            all = all.and(ended.map(drop).map_err(PartEnded::Broke));
        }
        all.and(self.panics.so_far().map_or(Ok(()), |panicked| Err(PartEnded::Broke(panicked))))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "no part touches the machine")]
mod tests {
    use std::future::pending;

    use super::*;

    /// A system and no parts yet.
    fn parts() -> (System, Parts) {
        let (system, panics) = System::real().telling_panics();
        (system.clone(), Parts::new(system, panics))
    }

    /// What becomes of work that never ends, beside a part that lives as given.
    async fn beside(part: impl Future<Output = ()> + Send + 'static) -> Result<Option<()>, PartEnded> {
        let (_, mut parts) = parts();
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
    async fn a_task_that_nobody_waits_for_and_that_panics_ends_the_work_and_the_parts_with_an_error() {
        let (system, mut parts) = parts();
        drop(system.spawn(async { panic!("a call broke") }));
        let panicked = parts.beside(&CancellationToken::new(), pending::<()>()).await.unwrap_err();
        assert_eq!(panicked.to_string(), "a part of the plugin ended: the task panicked: a call broke");
        assert_eq!(parts.end().await, Err(panicked));
    }

    #[tokio::test]
    async fn a_part_that_ends_with_the_plugin_is_no_error() {
        let (shutdown, (_, mut parts)) = (CancellationToken::new(), parts());
        parts.spawn("pod watch", shutdown.clone().cancelled_owned());
        shutdown.cancel();
        assert_eq!(parts.beside(&shutdown, pending::<()>()).await, Ok(None));
        assert_eq!(parts.end().await, Ok(()));
    }
}
