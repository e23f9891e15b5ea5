//! The plugin's process: started again when it ends, as kubelet does with its container, until it is stopped. Called by
//! `node`.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::instance::Signal;

/// How long a plugin may take to end after SIGTERM. Kubernetes gives thirty seconds.
const GRACE: Duration = Duration::from_secs(10);
/// How long after its end a plugin is started again: longer each time, as by kubelet.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What makes the program, for every start of it.
pub(super) type Program = Box<dyn Fn() -> Command + Send>;

/// A plugin that runs until it is stopped. Dropping this kills it.
pub(super) struct Process {
    /// What tells it from others of this run.
    pub(super) id: u64,
    state: Arc<State>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// The process, which leads its group; 0 while there is none.
    pid: AtomicU32,
    restarts: AtomicI32,
}

impl Process {
    /// Starts the program, and what it prints goes to the end of the file `log`.
    pub(super) fn start(id: u64, program: Program, log: PathBuf) -> Self {
        let (state, stop) = (Arc::new(State::default()), CancellationToken::new());
        let task = tokio::spawn(supervise(program, log, Arc::clone(&state), stop.clone()));
        Self { id, state, stop, task }
    }

    /// Whether the process runs.
    pub(super) fn is_running(&self) -> bool {
        self.state.pid.load(Ordering::SeqCst) != 0
    }

    /// How often it has ended by itself and was started again.
    pub(super) fn restarts(&self) -> i32 {
        self.state.restarts.load(Ordering::SeqCst)
    }

    /// Sends its processes a signal.
    ///
    /// # Errors
    /// None of them runs.
    pub(super) async fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.state.pid.load(Ordering::SeqCst);
        ensure!(pid != 0, "the plugin does not run");
        send(pid, signal).await
    }

    /// Ends it by SIGTERM, and by SIGKILL where that takes too long, and waits until it has ended.
    pub(super) async fn stop(mut self) {
        self.stop.cancel();
        // It ends by itself within its grace.
        let _ended = (&mut self.task).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The child goes with the task that waits for it.
        self.task.abort();
    }
}

async fn supervise(program: Program, log: PathBuf, state: Arc<State>, stop: CancellationToken) {
    let mut back_off = BACK_OFF.0;
    while !stop.is_cancelled() {
        match spawn(program(), &log) {
            Ok(mut child) => {
                state.pid.store(child.id().unwrap_or(0), Ordering::SeqCst);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => end(&mut child).await,
                    _ = child.wait() => {}
                }
                state.pid.store(0, Ordering::SeqCst);
            }
            Err(error) => note(&log, &error),
        }
        if stop.is_cancelled() {
            return;
        }
        state.restarts.fetch_add(1, Ordering::SeqCst);
        // As kubelet's back-off: only the stop ends it early.
        let _stopped = timeout(back_off, stop.cancelled()).await;
        back_off = (back_off * 2).min(BACK_OFF.1);
    }
}

fn spawn(mut program: Command, log: &Path) -> anyhow::Result<Child> {
    let file = File::options().create(true).append(true).open(log);
    let file = file.with_context(|| format!("cannot write {}", log.display()))?;
    let other = file.try_clone().context("cannot use the log twice")?;
    program.stdout(Stdio::from(file)).stderr(Stdio::from(other)).spawn().context("cannot start the plugin")
}

/// Why the plugin could not be started, where its own words would be.
fn note(log: &Path, error: &anyhow::Error) {
    if let Ok(mut file) = File::options().create(true).append(true).open(log) {
        // Nobody is left to be told that a note cannot be written.
        let _lost = writeln!(file, "{error:#}");
    }
}

/// Ends the process and those it has started.
async fn end(child: &mut Child) {
    let Some(pid) = child.id() else { return };
    for signal in [Signal::Terminate, Signal::Continue] {
        // One that has just ended takes no signal.
        let _gone = send(pid, signal).await;
    }
    if timeout(GRACE, child.wait()).await.is_err() {
        let _gone = send(pid, Signal::Kill).await;
        let _ended = child.wait().await;
    }
}

/// Sends the group of processes a signal.
async fn send(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let command = format!("kill -s {} -- -{pid}", signal.name());
    let sent = Command::new("sh").arg("-c").arg(&command).stderr(Stdio::null()).status().await;
    let sent = sent.with_context(|| format!("cannot run `{command}`"))?;
    ensure!(sent.success(), "the plugin's process {pid} takes no signal {}", signal.name());
    Ok(())
}
