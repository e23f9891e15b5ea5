//! Seconds by phase: said on standard error as each ends, and all together at the end of a run.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What a run has spent its time on.
#[derive(Debug)]
pub(super) struct Phases {
    began: Instant,
    spent: Mutex<Vec<(String, Duration)>>,
}

impl Phases {
    /// Nothing yet; the time of the whole begins now.
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), spent: Mutex::default() }
    }

    /// Says that a phase that began then has ended.
    pub(super) fn done(&self, what: impl Into<String>, began: Instant) {
        let (what, spent) = (what.into(), began.elapsed());
        eprintln!("{}", line(&what, spent));
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).push((what, spent));
    }

    /// Says that this is reached, with the time since the run began.
    pub(super) fn reached(&self, what: impl Into<String>) {
        self.done(what, self.began);
    }

    /// Says all of it again, one line a phase, the sum of the run last. Phases of clusters that stand side by side
    /// overlap, so the lines add up to more.
    pub(super) fn tell(&self) {
        eprintln!("seconds by phase, clusters side by side:");
        for (what, spent) in self.spent.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            eprintln!("{}", line(what, *spent));
        }
        eprintln!("{}", line("all", self.began.elapsed()));
    }
}

/// Seconds by phase where one follows the other, said as each ends.
pub(crate) struct Phase {
    began: Instant,
}

impl Phase {
    /// The first one begins.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// One ends, the next begins.
    pub(crate) fn done(&mut self, what: &str) {
        eprintln!("{}", line(what, self.began.elapsed()));
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
