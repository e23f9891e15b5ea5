//! What upkeep could not do. Most of it is tried again and again, so a failure is logged only when it is news. Kept by
//! `upkeep`.

use std::collections::BTreeSet;

/// Something that could not be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Failure {
    /// What could not be done, as a sentence. Always the same for the same step.
    pub(super) problem: &'static str,
    /// The pod as `namespace/name`, where it is about one.
    pub(super) pod: Option<String>,
    /// The error's text.
    pub(super) reason: String,
    /// Whether another try may help.
    pub(super) retry: bool,
}

/// The failures of the last try.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeSet<Failure>);

impl Failure {
    pub(super) fn new(problem: &'static str, pod: Option<&str>, reason: &impl ToString) -> Self {
        Failure { problem, pod: pod.map(str::to_owned), reason: reason.to_string(), retry: true }
    }
}

impl Failures {
    /// Keeps the failures of a try in place of those before; gives the ones that are news.
    pub(super) fn replace(&mut self, now: impl IntoIterator<Item = Failure>) -> Vec<Failure> {
        let now: BTreeSet<Failure> = now.into_iter().collect();
        let news = now.difference(&self.0).cloned().collect();
        self.0 = now;
        news
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Keeps one more failure; whether it is news.
    pub(super) fn insert(&mut self, failure: Failure) -> bool {
        self.0.insert(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_news_until_it_is_over() {
        let mut failures = Failures::default();
        let away = Failure::new("the report could not be written", None, &"connection refused");
        let slow = Failure::new("the report could not be written", None, &"no answer within 2s");
        assert_eq!(failures.replace([away.clone()]).len(), 1);
        assert_eq!(failures.replace([away.clone()]), []);
        assert!(!failures.insert(away.clone()));
        assert_eq!(failures.replace([slow.clone()]), [slow]);
        assert_eq!(failures.replace([]), []);
        assert_eq!(failures.replace([away.clone()]), [away]);
    }
}
