//! What keeps the plugin from serving, part by part. `monitor` and each registration tell it; `/healthz` and the log show it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The open problems.
#[derive(Debug, Default)]
pub struct Status {
    problems: Mutex<BTreeMap<String, String>>,
}

impl Status {
    /// The part has not started, which is no news for the log.
    pub fn starting(&self, part: &str) {
        self.problems().insert(part.to_owned(), "not started yet".to_owned());
    }

    /// The part cannot do its work. Logged when the reason is news.
    pub fn problem(&self, part: &str, reason: &str) {
        let before = self.problems().insert(part.to_owned(), reason.to_owned());
        if before.as_deref() != Some(reason) {
            tracing::warn!(part, reason, "not ready");
        }
    }

    /// The part does its work.
    pub fn fine(&self, part: &str) {
        if self.problems().remove(part).is_some() {
            tracing::info!(part, "ready");
        }
    }

    /// The text of `/healthz`.
    ///
    /// # Errors
    /// One line for each problem.
    pub fn text(&self) -> Result<String, String> {
        let problems = self.problems();
        if problems.is_empty() {
            return Ok("ok\n".to_owned());
        }
        Err(problems.iter().map(|(part, reason)| format!("{part}: {reason}\n")).collect())
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
