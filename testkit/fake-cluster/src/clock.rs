//! The cluster's time, which stands still until a test advances it. The API server, the scheduler and the kubelets of one
//! cluster share one clock.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

/// A clock that starts at 2026-01-01T00:00:00Z and moves only by [`Clock::advance`]. Clones share the time.
#[derive(Clone, Debug)]
pub struct Clock {
    time: Arc<watch::Sender<Timestamp>>,
}

impl Clock {
    /// A clock at 2026-01-01T00:00:00Z.
    pub fn new() -> Self {
        // 2026-01-01T00:00:00Z in seconds since 1970.
        let start = Timestamp::constant(1_767_225_600, 0);
        Self { time: Arc::new(watch::Sender::new(start)) }
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        *self.time.borrow()
    }

    /// Moves the time on by `step` and wakes every sleeper whose time has come. It stops at the end of jiff's range (the
    /// year 9999).
    pub fn advance(&self, step: Duration) {
        self.time.send_modify(|now| *now = later(*now, step));
    }

    /// Ends once the clock has been advanced by `span`, counted from this call and not from the first poll.
    pub fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.sleep_until(later(self.now(), span))
    }

    /// Ends once the clock has reached `instant`.
    pub fn sleep_until(&self, instant: Timestamp) -> impl Future<Output = ()> + Send + use<> {
        let mut time = self.time.subscribe();
        // The sender lives as long as any clone of this clock; one is kept here, so waiting cannot fail.
        let clock = self.clone();
        async move {
            let _ = time.wait_for(|now| *now >= instant).await;
            drop(clock);
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// `from` + `span`, at most the latest instant jiff knows.
pub(crate) fn later(from: Timestamp, span: Duration) -> Timestamp {
    SignedDuration::try_from(span).ok().and_then(|span| from.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
}

/// The instant as Kubernetes' objects have it: RFC 3339 in UTC, in whole seconds.
pub(crate) fn rfc3339(instant: Timestamp) -> String {
    instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use testkit_support::within;

    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_when_its_time_has_come_and_not_before() {
        let clock = Clock::new();
        let start = clock.now();
        let sleeper = tokio::spawn(clock.sleep(Duration::from_secs(10)));
        clock.advance(Duration::from_secs(9));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        within("the sleeper", sleeper).await.unwrap();
        assert_eq!(clock.now().duration_since(start).as_secs(), 10);
    }

    #[test]
    fn it_starts_at_new_year_2026() {
        assert_eq!(Clock::new().now().to_string(), "2026-01-01T00:00:00Z");
    }
}
