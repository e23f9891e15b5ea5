//! Times in which less was offered than there is. Kept by [`super`].

use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

/// What was offered, look by look.
#[derive(Debug)]
pub(super) struct Gaps {
    full: Vec<usize>,
    since: Option<Instant>,
    ended: Vec<Duration>,
}

/// Gaps as they are told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GapSummary {
    /// How often less was offered.
    pub gaps: usize,
    /// The longest, in seconds.
    pub longest: f64,
    /// The middle one, in seconds.
    pub median: f64,
    /// Whether the last one had not ended.
    pub open: bool,
}

impl Gaps {
    /// None yet, of what offers so many of each resource when all is well.
    pub(super) fn of(full: Vec<usize>) -> Self {
        Self { full, since: None, ended: Vec::new() }
    }

    /// What was seen at this time.
    pub(super) fn look(&mut self, offered: &[usize], now: Instant) {
        let is_full = self.full.iter().zip(offered).all(|(full, offered)| offered >= full);
        match (is_full, self.since) {
            (false, None) => self.since = Some(now),
            (true, Some(since)) => {
                self.ended.push(now - since);
                self.since = None;
            }
            (true, None) | (false, Some(_)) => {}
        }
    }

    /// All of them; one that has not ended lasts until now.
    pub(super) fn summary(mut self, now: Instant) -> GapSummary {
        self.ended.extend(self.since.map(|since| now - since));
        self.ended.sort();
        let seconds = |gap: Option<&Duration>| gap.map_or(0.0, Duration::as_secs_f64);
        GapSummary {
            gaps: self.ended.len(),
            longest: seconds(self.ended.last()),
            median: seconds(self.ended.get(self.ended.len() / 2)),
            open: self.since.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_gap_lasts_from_the_first_look_with_less_to_the_first_with_all() {
        let begin = Instant::now();
        let at = |tenths: u64| begin + Duration::from_millis(100 * tenths);
        let mut gaps = Gaps::of(vec![16, 32]);
        for (tenths, offered) in [
            (0, [16, 32]),
            (1, [0, 32]),
            (2, [0, 0]),
            (4, [16, 32]),
            (5, [15, 32]),
            (6, [16, 32]),
            (9, [16, 0]),
        ] {
            gaps.look(&offered, at(tenths));
        }
        let summary = gaps.summary(at(20));
        assert_eq!((summary.gaps, summary.open), (3, true));
        assert_eq!((summary.longest, summary.median), (1.1, 0.3));
    }
}
