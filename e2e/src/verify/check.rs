//! What came of the checks, as lines and as rows.

use serde::Serialize;

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckResult {
    /// All was as it must be.
    Passed,
    /// Something was not.
    Failed,
    /// This cluster gives no occasion for it.
    NotApplicable,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked.
    pub check: String,
    /// What it came to.
    pub result: CheckResult,
    /// What was seen; why it failed; why it is not applicable.
    pub seen: String,
}

/// The checks so far.
pub(super) struct Checks<P> {
    all: Vec<Check>,
    progress: P,
}

impl<P: Fn(&Check)> Checks<P> {
    /// None yet.
    pub(super) fn new(progress: P) -> Self {
        Self { all: Vec::new(), progress }
    }

    /// A check with what it saw, or why it failed.
    pub(super) fn add(&mut self, check: impl Into<String>, result: anyhow::Result<String>) {
        match result {
            Ok(seen) => self.push(check, CheckResult::Passed, seen),
            Err(why) => self.push(check, CheckResult::Failed, format!("{why:#}")),
        }
    }

    /// A check that this cluster gives no occasion for.
    pub(super) fn not_applicable(&mut self, check: impl Into<String>, why: impl Into<String>) {
        self.push(check, CheckResult::NotApplicable, why.into());
    }

    fn push(&mut self, check: impl Into<String>, result: CheckResult, seen: String) {
        let check = Check { check: check.into(), result, seen };
        (self.progress)(&check);
        self.all.push(check);
    }

    pub(super) fn into_vec(self) -> Vec<Check> {
        self.all
    }
}

/// A check as a line: the result, what was checked, what was seen.
pub fn line(check: &Check) -> String {
    let word = match check.result {
        CheckResult::Passed => "passed",
        CheckResult::Failed => "FAILED",
        CheckResult::NotApplicable => "n/a",
    };
    format!("{word:7} {}: {}", check.check, check.seen)
}

/// The last line: `N passed, N failed`, and `N not applicable` where some were.
pub fn summary(checks: &[Check]) -> String {
    let count = |result| checks.iter().filter(|check| check.result == result).count();
    let (passed, failed) = (count(CheckResult::Passed), count(CheckResult::Failed));
    match count(CheckResult::NotApplicable) {
        0 => format!("{passed} passed, {failed} failed"),
        others => format!("{passed} passed, {failed} failed, {others} not applicable"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_begins_with_the_result() {
        let mut checks = Checks::new(|_: &Check| {});
        checks.add("extender", Ok("2 pods ready".to_owned()));
        checks.add("one core", Err(anyhow::anyhow!("connection refused").context("creating the pod")));
        checks.not_applicable("linked devices", "no node has two");
        let checks = checks.into_vec();
        let lines: Vec<String> = checks.iter().map(line).collect();
        assert_eq!(
            lines,
            [
                "passed  extender: 2 pods ready",
                "FAILED  one core: creating the pod: connection refused",
                "n/a     linked devices: no node has two",
            ]
        );
        assert_eq!(summary(&checks), "1 passed, 1 failed, 1 not applicable");
    }
}
