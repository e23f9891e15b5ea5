//! Watches, in real time, whether every poll returns: a loop that never yields stops a simulation as it would stop a program.
//! Asked by `run`, on the thread that waits for the simulating one.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A poll that does not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The part whose task is polled.
    pub part: String,
    /// For how long it may be, in real time.
    pub limit: Duration,
}

/// What the simulating thread tells, and is told.
#[derive(Default)]
pub(crate) struct Watchdog {
    /// Odd while a task is polled.
    polls: AtomicU64,
    part: AtomicUsize,
    given_up: AtomicBool,
}

impl Watchdog {
    /// Waits until nobody can send to `ended` any more, or a poll has taken longer than the limit: then the simulation is given
    /// up, and this is the place of the part whose task is polled.
    pub(crate) fn wait(&self, ended: &Receiver<()>, limit: Duration) -> Option<usize> {
        let mut seen = 0;
        while ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let polls = self.polls.load(Ordering::Relaxed);
            if polls == seen && polls % 2 == 1 {
                self.given_up.store(true, Ordering::Relaxed);
                return Some(self.part.load(Ordering::Relaxed));
            }
            seen = polls;
        }
        None
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
