//! The limits of every list and watch: how long each may be silent, how large it may be, and when it is tried again.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::gap::Gap;
use crate::system::System;

/// Longest wait for a page of a list, or for a watch to begin.
pub(super) const LONGEST_ANSWER: Duration = Duration::from_secs(30);
/// How long the API server is asked to let a watch last, in seconds, unless the collection says otherwise: the longest time for which
/// nothing is seen where the connection leads nowhere any more. To take a watch up again costs little.
pub(super) const WATCH_SECONDS: u32 = 60;
/// The same after a watch that said nothing: a server that lives has sent a bookmark by then, or ends the watch.
pub(super) const DOUBTED_SECONDS: u32 = 10;
/// How much longer than asked for a watch may last.
pub(super) const OVERDUE: Duration = Duration::from_secs(5);
/// How much earlier, by this machine's clock, a watch may end that the API server ends when it was asked to.
pub(super) const EARLY: Duration = Duration::from_secs(1);
/// A watch that ends within this time has not begun.
pub(super) const SHORTEST_WATCH: Duration = Duration::from_millis(200);

/// How long after a watch was taken up again what had happened meanwhile may still be on its way.
pub(super) const SETTLED: Duration = Duration::from_millis(100);

/// Objects in a page of a list.
pub(super) const PAGE: u32 = 500;
/// Longest page, in bytes. A page of one object is shorter: etcd holds objects of at most 1.5 MB.
pub(super) const LONGEST_PAGE: usize = 32 << 20;
/// A page that is too long is asked for with this many times fewer objects.
pub(super) const FEWER: u32 = 8;

/// First and longest wait before a list that follows an error. The longest is short, since pods that end meanwhile still
/// count as holders.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How long to wait before the next list.
pub(super) struct Backoff {
    system: System,
    next: Duration,
    list_began: Instant,
}

impl Backoff {
    pub(super) fn new(system: System) -> Self {
        Self { system, next: RETRY.0, list_began: Instant::now() }
    }

    /// A list begins.
    pub(super) fn list_begins(&mut self) {
        self.list_began = Instant::now();
    }

    /// Waits, each time longer. Only a watch that has lasted, and has said something, makes the wait short again: where lists succeed and
    /// watches never do, whole lists are not asked for without pause.
    pub(super) async fn wait(&mut self, gap: &Gap) {
        let was_silent = gap.silent_since().is_some_and(|since| since < self.list_began);
        if self.list_began.elapsed() > RETRY.1 && !was_silent {
            self.next = RETRY.0;
        }
        sleep(self.next.mul_f64(spread(&self.system))).await;
        self.next = (self.next * 2).min(RETRY.1);
    }
}

/// How long the next watch shall last, in seconds: this long at most.
pub(super) fn watch_seconds(system: &System, longest: u32) -> u32 {
    // Planted: a watch is begun again every second.
    #[cfg(planted)]
    if crate::is_planted("watches-without-end") {
        return 1;
    }
    (f64::from(longest) * spread(system)) as u32
}

/// A factor from 0.8 to 1, so that what every node asks is not asked at the same moment.
fn spread(system: &System) -> f64 {
    0.8 + 0.2 * (system.random() as f64 / u64::MAX as f64)
}
