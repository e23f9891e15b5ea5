//! How many events are sent: the API server keeps each for an hour, and other programs' must pass as well. Asked by [`super::outbox`].

use std::time::Duration;

use tokio::time::Instant;

/// Events that are sent at once after a while without any.
const BURST: u32 = 50;

/// Between two events while more are to be sent: ten a second.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);

/// A token bucket.
#[derive(Debug)]
pub(super) struct Rate {
    /// When all of [`BURST`] may be sent again.
    full_at: Instant,
}

impl Rate {
    /// All may be sent.
    pub(super) fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes the right to send one event.
    ///
    /// # Errors
    /// When there is one again.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let full_at = self.full_at.max(now) + INTERVAL;
        if full_at > now + INTERVAL * BURST {
            return Err(full_at - INTERVAL * BURST);
        }
        self.full_at = full_at;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifty_are_sent_at_once_then_ten_a_second() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let sent = |rate: &mut Rate, after: Duration| {
            (0..1000).take_while(|_| rate.take(start + after).is_ok()).count()
        };
        assert_eq!(sent(&mut rate, Duration::ZERO), 50);
        assert_eq!(rate.take(start), Err(start + INTERVAL));
        assert_eq!(sent(&mut rate, Duration::from_secs(1)), 10);
        assert_eq!(sent(&mut rate, Duration::from_secs(3)), 20);
        assert_eq!(sent(&mut rate, Duration::from_secs(60)), 50);
    }
}
