//! Seconds by phase: reported as each ends, and all together at the end of a run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::report;

/// What a run has spent its time on.
#[derive(Debug)]
pub struct Phases {
    began: Instant,
    spent: Mutex<Vec<(String, Duration)>>,
}

impl Phases {
    /// No phase has ended, and the time of the whole begins now.
    pub fn begin() -> Self {
        Self { began: Instant::now(), spent: Mutex::default() }
    }

    /// Reports that a phase that began then has ended.
    pub fn done(&self, what: impl Into<String>, began: Instant) {
        let (what, spent) = (what.into(), began.elapsed());
        report::line(line(&what, spent));
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).push((what, spent));
    }

    /// Reports that this is reached, with the time since the run began.
    pub fn reached(&self, what: impl Into<String>) {
        self.done(what, self.began);
    }

    /// Reports all of it again, one line a phase, the sum of the run last. Phases of clusters that stand side by side
    /// overlap, so the lines add up to more.
    pub fn report(&self) {
        report::line("seconds by phase, clusters side by side:");
        for (what, spent) in self.spent.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            report::line(line(what, *spent));
        }
        report::line(line("all", self.began.elapsed()));
    }
}

/// Seconds by phase where one follows the other, reported as each ends.
#[derive(Debug)]
pub struct Phase {
    began: Instant,
}

impl Phase {
    /// The first one begins.
    pub fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// One ends, the next begins.
    pub fn done(&mut self, what: &str) {
        report::line(line(what, self.began.elapsed()));
        self.began = Instant::now();
    }
}

fn line(what: &str, spent: Duration) -> String {
    format!("{:6.1} s  {what}", spent.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_seconds_first() {
        assert_eq!(line("all", Duration::from_millis(61_250)), "  61.2 s  all");
    }
}
