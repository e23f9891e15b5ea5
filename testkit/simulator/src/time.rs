//! Simulated time: the executor sets it, files, processes and the trace read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// 2026-01-01T00:00:00Z, at which every simulation begins, since 1970.
const BEGINNING: Duration = Duration::from_secs(1_767_225_600);

/// The time of a simulation. Clones are the same clock.
#[derive(Clone, Default)]
pub(crate) struct Clock {
    /// Nanoseconds since the beginning: 584 years fit.
    elapsed: Arc<AtomicU64>,
}

impl Clock {
    /// Time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    pub(crate) fn set_elapsed(&self, elapsed: Duration) {
        self.elapsed.store(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What a wall clock shows that is `skew` nanoseconds ahead (negative: behind), since 1970.
    pub(crate) fn wall(&self, skew: i64) -> Duration {
        let true_time = BEGINNING + self.elapsed();
        let ahead = Duration::from_nanos(skew.unsigned_abs());
        if skew < 0 { true_time.saturating_sub(ahead) } else { true_time + ahead }
    }
}
