//! Waits for conditions. [`Wait`] gives an error, for programs; [`eventually`] and [`within`] panic, for tests.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep, timeout};

use crate::pace;

/// The timeout of tests, at full pace. Far longer than any condition takes that comes at all.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a test looks.
const TEST_POLL: Duration = Duration::from_millis(5);
/// The pace is measured this often, at most: a measurement is a fifth of a millisecond's work.
const SAMPLE: Duration = Duration::from_millis(500);

/// How long and how often to look.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// How long a wait may take, at full pace ([`crate::pace`]).
    pub timeout: Duration,
    /// Time between two looks.
    pub poll: Duration,
}

impl Wait {
    /// Looks until there is something, and gives it. A look that fails is tried again: what is asked may be away for a
    /// moment.
    ///
    /// # Errors
    /// The timeout is over, named with `what` was waited for and the error of the last look, if it had one.
    // Not an `AsyncFnMut`: the compiler cannot tell that a future which waits for one may go to another thread.
    pub async fn found<T, F: Future<Output = anyhow::Result<Option<T>>>>(
        &self,
        what: &str,
        mut look: impl FnMut() -> F,
    ) -> anyhow::Result<T> {
        let mut waiting = Waiting::begin(*self, what);
        loop {
            if let Some(found) = waiting.result_of(look()).await? {
                return Ok(found);
            }
        }
    }

    /// Looks until the condition holds.
    ///
    /// # Errors
    /// As [`Self::found`].
    pub async fn until<F: Future<Output = anyhow::Result<bool>>>(
        &self,
        what: &str,
        mut condition: impl FnMut() -> F,
    ) -> anyhow::Result<()> {
        let mut waiting = Waiting::begin(*self, what);
        loop {
            let held = condition();
            if waiting.result_of(async { Ok(held.await?.then_some(())) }).await?.is_some() {
                return Ok(());
            }
        }
    }
}

/// A wait under way.
struct Waiting<'a> {
    wait: Wait,
    what: &'a str,
    spent: Spent,
}

impl<'a> Waiting<'a> {
    fn begin(wait: Wait, what: &'a str) -> Self {
        Self { wait, what, spent: Spent::new() }
    }

    /// What a look found. Nothing where it is to be repeated, which it then is time for; an error once the timeout is over.
    async fn result_of<T>(
        &mut self,
        look: impl Future<Output = anyhow::Result<Option<T>>>,
    ) -> anyhow::Result<Option<T>> {
        let Wait { timeout: longest, poll } = self.wait;
        // A server that never answers would be waited for without end.
        let answer = timeout(longest.mul_f64(pace::LARGEST_SLOWDOWN), look).await;
        let looked = answer.unwrap_or_else(|_| bail!("no answer for {} s", longest.as_secs()));
        let is_over = self.spent.until_now() >= longest;
        match looked {
            Ok(Some(found)) => return Ok(Some(found)),
            Ok(None) if is_over => bail!("waited {} s for {}", longest.as_secs(), self.what),
            Err(error) if is_over => {
                return Err(error)
                    .with_context(|| format!("waited {} s for {}", longest.as_secs(), self.what));
            }
            Ok(None) | Err(_) => sleep(poll).await,
        }
        Ok(None)
    }
}

/// Time spent waiting, as it would be at full pace.
#[derive(Debug)]
pub(crate) struct Spent {
    until_last: Duration,
    last: Instant,
    slowdown: f64,
    sampled: Option<Instant>,
}

impl Spent {
    pub(crate) fn new() -> Self {
        Self { until_last: Duration::ZERO, last: Instant::now(), slowdown: 1.0, sampled: None }
    }

    /// How long it is since this was made.
    pub(crate) fn until_now(&mut self) -> Duration {
        let now = Instant::now();
        if self.sampled.is_none_or(|sampled| now - sampled >= SAMPLE) {
            (self.slowdown, self.sampled) = (pace::slowdown(), Some(now));
        }
        self.until_last += (now - self.last).div_f64(self.slowdown);
        self.last = now;
        self.until_last
    }
}

/// Asks again until there is an answer.
///
/// # Panics
/// There is none within twenty seconds at full pace.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    let wait = Wait { timeout: TEST_TIMEOUT, poll: TEST_POLL };
    let at = std::panic::Location::caller();
    async move {
        let mut waiting = Waiting::begin(wait, what);
        loop {
            match waiting.result_of(async { Ok(ask().await) }).await {
                Ok(Some(found)) => return found,
                Ok(None) => {}
                #[expect(clippy::panic, reason = "it is a test's assertion")]
                Err(error) => panic!("{at}: {error:#}"),
            }
        }
    }
}

/// What comes of the future.
///
/// # Panics
/// Nothing does within twenty seconds at full pace.
#[track_caller]
pub fn within<T>(what: &str, future: impl Future<Output = T>) -> impl Future<Output = T> {
    let at = std::panic::Location::caller();
    async move {
        let mut future = std::pin::pin!(future);
        let mut spent = Spent::new();
        loop {
            if let Ok(done) = timeout(TEST_TIMEOUT / 20, &mut future).await {
                return done;
            }
            #[expect(clippy::panic, reason = "it is a test's assertion")]
            if spent.until_now() >= TEST_TIMEOUT {
                panic!("{at}: waited {} s for {what}", TEST_TIMEOUT.as_secs());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    const WAIT: Wait = Wait { timeout: Duration::from_secs(2), poll: Duration::from_millis(50) };

    #[tokio::test(start_paused = true)]
    async fn what_fails_first_is_looked_at_again() {
        let looks = AtomicU32::new(0);
        let found = WAIT.found("it", async || match looks.fetch_add(1, Relaxed) {
            looks @ ..2 => bail!("away at look {looks}"),
            looks => Ok(Some(looks + 1)),
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_wait_says_what_for_and_what_was_said_last() {
        let error = WAIT.found::<(), _>("the node", async || bail!("connection refused")).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 2 s for the node: connection refused");
        let error = WAIT.until("the node", async || Ok(false)).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 2 s for the node");
        let error = WAIT.until("the node", async || pending().await).await.unwrap_err();
        assert_eq!(format!("{error:#}"), "waited 2 s for the node: no answer for 2 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_may_go_on_in_another_thread() {
        async fn wait(name: &str) -> anyhow::Result<()> {
            WAIT.until("a name", async || Ok(!name.is_empty())).await
        }
        tokio::spawn(async { wait("n1").await }).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "waited 20 s for an answer")]
    async fn a_test_that_waits_in_vain_says_for_what() {
        within("an answer", pending::<()>()).await;
    }
}
