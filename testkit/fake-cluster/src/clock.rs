//! The cluster's time: it stands still until a test advances it, or follows tokio's. The API server, the scheduler and the
//! kubelets of one cluster share one clock.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

/// 2026-01-01T00:00:00Z in seconds since 1970.
const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// A clock that starts at 2026-01-01T00:00:00Z. Clones share the time.
///
/// [`Clock::new`] stands still and moves only by [`Clock::advance`]. [`Clock::of_runtime`] follows tokio's time: where that
/// is paused, as in a simulation, waits take no real time. No part of a cluster reads another clock.
#[derive(Clone, Debug)]
pub struct Clock {
    time: Time,
}

#[derive(Clone, Debug)]
enum Time {
    /// It is what it was set to.
    Standing(Arc<watch::Sender<Timestamp>>),
    /// So much later than the start as it is since then by tokio's time.
    Following(Instant),
}

impl Clock {
    /// A clock that stands at 2026-01-01T00:00:00Z until it is advanced.
    pub fn new() -> Self {
        Self { time: Time::Standing(Arc::new(watch::Sender::new(START))) }
    }

    /// A clock that is at 2026-01-01T00:00:00Z now and follows tokio's time. Must be called, and asked, inside one tokio
    /// runtime: each has a time of its own.
    pub fn of_runtime() -> Self {
        Self { time: Time::Following(Instant::now()) }
    }

    /// The present instant.
    pub fn now(&self) -> Timestamp {
        match &self.time {
            Time::Standing(time) => *time.borrow(),
            Time::Following(since) => later(START, since.elapsed()),
        }
    }

    /// Moves a standing clock on by `step` and wakes every sleeper whose time has come. It stops at the end of jiff's range
    /// (the year 9999). On a clock that follows tokio's time it does nothing: that is moved by tokio alone.
    pub fn advance(&self, step: Duration) {
        if let Time::Standing(time) = &self.time {
            time.send_modify(|now| *now = later(*now, step));
        }
    }

    /// Ends once `span` has passed, counted from this call and not from the first poll.
    pub fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.sleep_until(later(self.now(), span))
    }

    /// Ends once the clock has reached `instant`.
    pub fn sleep_until(&self, instant: Timestamp) -> impl Future<Output = ()> + Send + use<> {
        match &self.time {
            Time::Standing(time) => until_set(time, instant),
            Time::Following(since) => until_reached(*since, instant),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn until_set(time: &Arc<watch::Sender<Timestamp>>, instant: Timestamp) -> BoxFuture<'static, ()> {
    let mut changes = time.subscribe();
    // While the sender lives, waiting cannot fail.
    let sender = Arc::clone(time);
    async move {
        let _ = changes.wait_for(|now| *now >= instant).await;
        drop(sender);
    }
    .boxed()
}

fn until_reached(since: Instant, instant: Timestamp) -> BoxFuture<'static, ()> {
    let span = Duration::try_from(instant.duration_since(START)).unwrap_or_default();
    match since.checked_add(span) {
        Some(deadline) => tokio::time::sleep_until(deadline).boxed(),
        None => pending().boxed(),
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
        let mut sleeper = Box::pin(clock.sleep(Duration::from_secs(10)));
        clock.advance(Duration::from_secs(9));
        assert!(futures::poll!(&mut sleeper).is_pending());
        clock.advance(Duration::from_secs(1));
        within("the sleeper", sleeper).await;
        assert_eq!(clock.now().duration_since(start).as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_of_the_runtime_follows_tokios_time_and_nothing_else() {
        let clock = Clock::of_runtime();
        assert_eq!(clock.now(), START);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
        clock.advance(Duration::from_secs(3600));
        assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
        clock.sleep(Duration::from_secs(60)).await;
        clock.sleep_until(START).await;
        assert_eq!(clock.now().to_string(), "2026-01-01T01:01:00Z");
    }

    #[test]
    fn it_starts_at_new_year_2026() {
        assert_eq!(Clock::new().now().to_string(), "2026-01-01T00:00:00Z");
    }
}
