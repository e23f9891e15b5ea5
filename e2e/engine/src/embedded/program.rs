//! A production program as a simulated process: it can be stopped, and it can be killed with everything that it has started.

use std::time::Duration;

use anyhow::{Context as _, bail};
use runtime::system::{Task, TaskEnded};
use simulator::Process;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a program may take to end cleanly; a real one gets 30 s before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A running program.
pub(super) struct Program {
    process: Process,
    shutdown: CancellationToken,
    main: Task<anyhow::Result<()>>,
}

impl Program {
    /// Starts a program in a process by its main function, which ends when the token is cancelled.
    pub(super) fn start<F>(process: Process, run: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let shutdown = CancellationToken::new();
        let main = process.system().spawn(run(shutdown.clone()));
        Self { process, shutdown, main }
    }

    /// Stops it as a signal would and waits until it has ended.
    ///
    /// # Errors
    /// It failed, or does not end within [`GRACE`].
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        let part = self.process.part();
        let Ok(ended) = timeout(GRACE, self.main).await else {
            bail!("{part} did not end within {} s", GRACE.as_secs());
        };
        self.process.exit();
        result_of(ended, &part)
    }

    /// Stops it where it is, as SIGSTOP does: nothing of it runs, and whoever calls it gets no answer.
    pub(super) fn freeze(&self) {
        self.process.freeze();
    }

    /// Lets it go on, as SIGCONT does.
    pub(super) fn thaw(&self) {
        self.process.thaw();
    }

    /// Kills it: nothing of it runs again.
    ///
    /// # Errors
    /// It has ended or panicked before.
    pub(super) async fn kill(self) -> anyhow::Result<()> {
        let part = self.process.part();
        if self.main.is_finished() {
            result_of(self.main.await, &part)?;
            bail!("{part} has ended before it was to be killed");
        }
        self.process.kill();
        Ok(())
    }
}

fn result_of(ended: Result<anyhow::Result<()>, TaskEnded>, part: &str) -> anyhow::Result<()> {
    ended.with_context(|| format!("{part} broke off"))?
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use simulator::{Host, Options, run};
    use tokio::sync::oneshot;

    use super::*;

    /// What comes of the work in a simulation, where nothing but what it wants may panic.
    fn simulated<T: Send + 'static>(work: impl AsyncFnOnce(Host) -> T + Send + 'static) -> T {
        let finished = run(Options::new(1), async move |simulation| work(simulation.host("host")).await);
        finished.result.unwrap_or_else(|| panic!("{:?}", finished.panics))
    }

    /// A program that ends only if it is told to, and has started something that holds on to `held`.
    async fn program(host: &Host, held: &Arc<()>) -> Program {
        let process = host.process("test");
        let (held, system) = (Arc::clone(held), process.system());
        let (say, started) = oneshot::channel();
        let program = Program::start(process, async move |shutdown| {
            system.spawn(async move {
                let _held = held;
                say.send(()).unwrap();
                pending::<()>().await;
            });
            shutdown.cancelled().await;
            Ok(())
        });
        started.await.unwrap();
        program
    }

    #[test]
    fn nothing_that_it_started_outlives_its_end() {
        simulated(async |host| {
            let held = Arc::new(());
            program(&host, &held).await.stop().await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(Arc::strong_count(&held), 1);
            program(&host, &held).await.kill().await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(Arc::strong_count(&held), 1);
        });
    }

    #[test]
    fn an_end_that_nobody_asked_for_is_an_error() {
        simulated(async |host| {
            let program = Program::start(host.process("test"), async |_| bail!("it broke"));
            assert_eq!(program.stop().await.unwrap_err().to_string(), "it broke");
            let (say, done) = oneshot::channel::<()>();
            let program = Program::start(host.process("test"), async |_| {
                let _dropped = say;
                panic!("it panicked")
            });
            let _panicked = done.await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            let error = program.kill().await.unwrap_err();
            assert_eq!(format!("{error:#}"), "test broke off: the task panicked: it panicked");
        });
    }
}
