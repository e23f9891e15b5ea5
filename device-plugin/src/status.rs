//! What keeps the plugin from serving, part by part. Every part says it here; `/healthz` and the log show it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The open problems.
#[derive(Debug, Default)]
pub struct Status {
    problems: Mutex<BTreeMap<String, String>>,
}

impl Status {
    /// Part `part` has not started yet: nothing to log, but nothing is served either.
    pub fn starting(&self, part: &str) {
        self.problems().insert(part.to_owned(), "not started yet".to_owned());
    }

    /// Part `part` cannot do its work, and why; logged when it is news.
    pub fn problem(&self, part: &str, why: &str) {
        let before = self.problems().insert(part.to_owned(), why.to_owned());
        if before.as_deref() != Some(why) {
            tracing::warn!("{part}: {why}");
        }
    }

    /// Part `part` does its work.
    pub fn fine(&self, part: &str) {
        if self.problems().remove(part).is_some() {
            tracing::info!("{part}: fine");
        }
    }

    /// What `/healthz` says: `Err` with one line for each problem.
    pub fn text(&self) -> Result<String, String> {
        let problems = self.problems();
        if problems.is_empty() {
            return Ok("ok\n".to_owned());
        }
        Err(problems.iter().map(|(part, why)| format!("{part}: {why}\n")).collect())
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
