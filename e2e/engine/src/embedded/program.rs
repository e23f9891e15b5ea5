//! A production program in this process, with a thread and a runtime of its own: it can be stopped, and it can be killed
//! with everything that it has spawned, as a process is.

use std::future::Future;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::runtime::Builder;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a program may take to end cleanly; a real one gets 30 s before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A running program. It is killed when this is dropped.
pub(super) struct Program {
    name: &'static str,
    shutdown: CancellationToken,
    /// How it ended, once nothing of it is left.
    ended: oneshot::Receiver<anyhow::Result<()>>,
    life: DropGuard,
}

impl Program {
    /// Starts a program by its main function, which ends when the token is cancelled.
    ///
    /// # Errors
    /// There can be no thread for it.
    pub(super) fn start<F>(
        name: &'static str,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> anyhow::Result<Self>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let (shutdown, killed) = (CancellationToken::new(), CancellationToken::new());
        let (report_end, ended) = oneshot::channel();
        let (stop, kill) = (shutdown.clone(), killed.clone());
        let live = move || {
            let runtime = Builder::new_current_thread().enable_all().build().context("no runtime")?;
            let result = runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = kill.cancelled() => Err(anyhow::anyhow!("killed")),
                    result = run(stop) => result,
                }
            });
            runtime.shutdown_background();
            result
        };
        // A caller that does not wait for the end has dropped the receiver.
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || drop(report_end.send(live())))
            .with_context(|| format!("no thread for the {name}"))?;
        Ok(Self { name, shutdown, ended, life: killed.drop_guard() })
    }

    /// Stops it as a signal would and waits until it has ended.
    ///
    /// # Errors
    /// It failed, or does not end within [`GRACE`].
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Self { name, shutdown, ended, life: _life } = self;
        shutdown.cancel();
        match tokio::time::timeout(GRACE, ended).await {
            Ok(ended) => ended.with_context(|| format!("{name} broke off"))?,
            Err(_) => bail!("{name} did not end within {} s", GRACE.as_secs()),
        }
    }

    /// Kills it and waits until nothing of it is left.
    ///
    /// # Errors
    /// It has ended or panicked before.
    pub(super) async fn kill(self) -> anyhow::Result<()> {
        let Self { name, mut ended, life, .. } = self;
        match ended.try_recv() {
            Ok(result) => {
                return result.and_then(|()| bail!("{name} has ended before it was to be killed"));
            }
            Err(TryRecvError::Closed) => bail!("{name} broke off"),
            Err(TryRecvError::Empty) => drop(life),
        }
        match tokio::time::timeout(GRACE, ended).await {
            // Only a program that panicked sends no result.
            Ok(result) => result.map(drop).with_context(|| format!("{name} broke off")),
            Err(_) => bail!("{name} could not be killed within {} s", GRACE.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use super::*;

    /// A program that ends only if it is told to, and has spawned something that holds on to `held`.
    async fn program(held: &Arc<()>) -> Program {
        let held = held.clone();
        let (say, spawned) = oneshot::channel();
        let program = Program::start("test", async move |shutdown| {
            tokio::spawn(async move {
                let _held = held;
                say.send(()).unwrap();
                pending::<()>().await;
            });
            shutdown.cancelled().await;
            Ok(())
        });
        spawned.await.unwrap();
        program.unwrap()
    }

    #[tokio::test]
    async fn nothing_that_it_spawned_outlives_its_end() {
        let held = Arc::new(());
        program(&held).await.stop().await.unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
        program(&held).await.kill().await.unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    }

    #[tokio::test]
    async fn an_end_that_nobody_asked_for_is_an_error() {
        let program = Program::start("test", async |_| bail!("it broke")).unwrap();
        assert_eq!(program.stop().await.unwrap_err().to_string(), "it broke");
        let (say, done) = oneshot::channel::<()>();
        let program = Program::start("test", async |_| {
            let _dropped = say;
            panic!("it panicked")
        })
        .unwrap();
        let _panicked = done.await;
        assert_eq!(program.kill().await.unwrap_err().to_string(), "test broke off");
    }
}
