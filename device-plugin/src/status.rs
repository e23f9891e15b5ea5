//! What keeps the plugin from serving, and what else its operator should know, part by part. `monitor` and each registration
//! tell it; `/healthz` and the log show it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The open problems and notes.
#[derive(Debug, Default)]
pub struct Status {
    problems: Mutex<BTreeMap<String, String>>,
    notes: Mutex<BTreeMap<String, String>>,
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

    /// Something about the part that its operator may want to know, and that is as it was chosen.
    pub fn tell(&self, part: &str, note: &str) {
        tracing::info!(part, note, "note this");
        locked(&self.notes).insert(part.to_owned(), note.to_owned());
    }

    /// The part does its work, and yet somebody should look. Logged when it is news.
    pub fn note(&self, part: &str, note: &str) {
        let before = locked(&self.notes).insert(part.to_owned(), note.to_owned());
        if before.as_deref() != Some(note) {
            tracing::warn!(part, note, "look after this");
        }
    }

    /// What was noted of the part no longer holds.
    pub fn clear_note(&self, part: &str) {
        locked(&self.notes).remove(part);
    }

    /// The text of `/healthz`: `ok` and a line for each note.
    ///
    /// # Errors
    /// One line for each problem.
    pub fn text(&self) -> Result<String, String> {
        let problems = self.problems();
        if problems.is_empty() {
            return Ok(format!("ok\n{}", lines(&locked(&self.notes))));
        }
        Err(lines(&problems))
    }

    /// Numbers of problems and of notes.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.problems().len(), locked(&self.notes).len())
    }

    fn problems(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        locked(&self.problems)
    }
}

fn lines(texts: &BTreeMap<String, String>) -> String {
    texts.iter().map(|(part, text)| format!("{part}: {text}\n")).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
