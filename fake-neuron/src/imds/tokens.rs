//! The session tokens of IMDSv2: given for a time, then worthless. Used by [`super::service`].

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Seconds that a token may live: one second to six hours.
pub(super) const LIFETIMES: RangeInclusive<u64> = 1..=21_600;

/// Characters of a token before its padding; the real one's length.
const LENGTH: usize = 54;

/// The tokens given so far and when each ends.
#[derive(Debug, Default)]
pub(super) struct Tokens(BTreeMap<String, Instant>);

impl Tokens {
    /// A new token that lives for `seconds`, a number of [`LIFETIMES`].
    pub(super) fn give(&mut self, seconds: u64) -> String {
        let now = Instant::now();
        self.0.retain(|_, end| *end > now);
        let mut token: String = (0..LENGTH).map(|_| fastrand::alphanumeric()).collect();
        token.push_str("==");
        self.0.insert(token.clone(), now + Duration::from_secs(seconds));
        token
    }

    /// Whether `token` was given here and has not ended.
    pub(super) fn knows(&self, token: &str) -> bool {
        self.0.get(token).is_some_and(|end| *end > Instant::now())
    }
}
