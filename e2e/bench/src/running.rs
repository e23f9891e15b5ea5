//! A program that the bench starts and needs: kwok and the extenders. One that ends early is told with its last words,
//! instead of being waited for in vain.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use tokio::process::{Child, Command};

/// Lines of its log that an error shows.
const LINES_SHOWN: usize = 5;

/// A running program; it ends when dropped.
pub(super) struct Running {
    what: String,
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts it; what it says on standard error goes to the file.
    pub(super) fn start(what: impl Into<String>, mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let what = what.into();
        let file = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {what}"))?;
        Ok(Self { what, child, log: log.to_owned() })
    }

    /// What comes of work that needs the program.
    ///
    /// # Errors
    /// The work's own, or that the program ended before `done`.
    pub(super) async fn while_it_runs(
        &mut self,
        done: &str,
        work: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<()> {
        let status = tokio::select! {
            result = work => return result,
            ended = self.child.wait() => ended.with_context(|| format!("waiting for {}", self.what))?,
        };
        let log = tokio::fs::read_to_string(&self.log)
            .await
            .with_context(|| format!("reading {}", self.log.display()))?;
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
        bail!("{} ended ({status}) before {done}; cure what its last words name:\n{last}", self.what);
    }

    /// The program's process id; none when it has ended.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends it and waits until it has ended.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.child.kill().await.with_context(|| format!("ending {}", self.what))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn shell(script: &str, log: &Path) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Running::start("kwok", command, log).unwrap()
    }

    #[tokio::test]
    async fn a_program_that_ends_early_is_told_with_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("kwok.log");
        let mut kwok = shell("for n in 1 2 3 4 5 6; do echo line $n; done >&2; exit 3", &log);
        let error = kwok.while_it_runs("all nodes were ready", pending()).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "kwok ended (exit status: 3) before all nodes were ready; cure what its last words name:\n\
             line 2\nline 3\nline 4\nline 5\nline 6"
        );
        let mut kwok = shell("exec sleep 60", &log);
        kwok.while_it_runs("all nodes were ready", ready(Ok(()))).await.unwrap();
    }
}
