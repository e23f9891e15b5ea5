//! How long something has been away. Asked by `upkeep`.

use std::time::Duration;

use tokio::time::Instant;

/// Something that may be away.
#[derive(Debug, Default)]
pub(super) struct Absence {
    since: Option<Instant>,
}

impl Absence {
    /// Takes in whether it is away now. Whether it has been for longer than `limit`.
    pub(super) fn is_long(&mut self, is_away: bool, now: Instant, limit: Duration) -> bool {
        self.since = is_away.then(|| self.since.unwrap_or(now));
        self.since.is_some_and(|since| now > since + limit)
    }
}

/// Whether what happens every `interval` has not happened for longer than `limit`; in one pause nobody tries, and two are no absence.
pub(super) fn is_long_ago(last: Duration, interval: Duration, limit: Duration) -> bool {
    last > limit.max(interval * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_two_tries_is_part_of_the_absence() {
        let long = |seconds| Duration::from_secs(seconds);
        let is_long = |last, limit| is_long_ago(long(last), long(60), long(limit));
        assert_eq!([is_long(300, 300), is_long(301, 300)], [false, true]);
        assert_eq!([is_long(120, 30), is_long(121, 30)], [false, true], "nobody tried before");
    }

    #[test]
    fn an_absence_is_long_until_it_ends_and_the_next_one_begins_anew() {
        let (mut absence, limit, began) = (Absence::default(), Duration::from_secs(300), Instant::now());
        let mut at = |seconds, is_away| absence.is_long(is_away, began + Duration::from_secs(seconds), limit);
        let seen = [at(0, true), at(300, true), at(301, true), at(302, false), at(303, true), at(604, true)];
        assert_eq!(seen, [false, false, true, false, false, true]);
    }
}
