//! Violations that are known, each with its cause and the issue that mends it. The list gets shorter, not longer: what is new
//! is mended, or has an issue.

use simulated_cluster::observer::Known;

/// The known violations.
///
/// # Errors
/// The list in the program is not readable, which its test would have found.
pub fn known() -> Result<Vec<Known>, serde_json::Error> {
    serde_json::from_str(include_str!("../known.json"))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test looks at the sources")]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_names_its_issue_and_a_plan_that_is_there() {
        let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
        for known in known().unwrap() {
            assert!(known.issue.starts_with("issue ") && !known.cause.is_empty(), "{known:?}");
            let goes_on = !known.signature.starts_with("panic:") && !known.signature.starts_with("stuck:");
            assert!(goes_on, "{:?} ends the run, so it cannot be counted and gone past", known.signature);
            let plan = known.plan.as_deref().map(|plan| plans.join(plan));
            assert!(plan.is_some_and(|plan| plan.exists()), "{:?} has no plan in plans/", known.signature);
        }
    }
}
