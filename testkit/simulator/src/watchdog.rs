//! Watches, in real time, whether every poll returns: a loop that never yields stops a simulation as it would stop a program.
//! Asked by `run`, on the thread that waits for the simulating one.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A simulation that does not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {how}")]
pub struct Stuck {
    /// The part whose task was polled last.
    pub part: String,
    /// What it was that did not end.
    pub how: How,
}

impl Stuck {
    /// Whether its thread goes on polling.
    pub(crate) fn is_in_a_poll(&self) -> bool {
        matches!(self.how, How::PollDoesNotReturn { .. })
    }
}

/// How a simulation can be stuck.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum How {
    /// A poll.
    #[error("a poll has not returned for {limit:?}")]
    PollDoesNotReturn {
        /// For how long it may be, in real time.
        limit: Duration,
    },
    /// Polls at one instant: tasks wake each other, or themselves, and no time passes.
    #[error("{polls} polls at one instant")]
    TimeStandsStill {
        /// How many there were.
        polls: u64,
    },
}

/// Polls at one instant after which nobody believes any more that time will go on. A list of 15,000 pods takes some thousand.
pub(crate) const MOST_AT_ONE_INSTANT: u64 = 5_000_000;

/// What the simulating thread tells, and is told.
#[derive(Default)]
pub(crate) struct Watchdog {
    /// Odd while a task is polled.
    polls: AtomicU64,
    part: AtomicUsize,
    given_up: AtomicBool,
    /// Polls at one instant, if there were too many.
    at_one_instant: AtomicU64,
}

impl Watchdog {
    /// Waits until nobody can send to `ended` any more, or a poll has taken longer than the limit: then the simulation is given
    /// up, and this is the place of the part whose task is polled, and how it is stuck.
    pub(crate) fn wait(&self, ended: &Receiver<()>, limit: Duration) -> Option<(usize, How)> {
        let mut seen = 0;
        while ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let polls = self.polls.load(Ordering::Relaxed);
            if polls == seen && polls % 2 == 1 {
                self.given_up.store(true, Ordering::Relaxed);
                return Some((self.part.load(Ordering::Relaxed), How::PollDoesNotReturn { limit }));
            }
            seen = polls;
        }
        let polls = self.at_one_instant.load(Ordering::Relaxed);
        (polls > 0).then(|| (self.part.load(Ordering::Relaxed), How::TimeStandsStill { polls }))
    }

    /// There were so many polls and no time passed: the simulation is given up.
    pub(crate) fn time_stands_still(&self, polls: u64) {
        self.at_one_instant.store(polls, Ordering::Relaxed);
        self.given_up.store(true, Ordering::Relaxed);
    }

    pub(crate) fn poll_begins(&self, part: usize) {
        self.part.store(part, Ordering::Relaxed);
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn poll_ends(&self) {
        self.polls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether nobody waits for the simulation any more: it ends when the poll returns after all.
    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }
}
