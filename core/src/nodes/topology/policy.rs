//! The placement policy: which sets of devices a cluster's administrator allows. Read from command lines.

use std::fmt;
use std::str::FromStr;

/// Which sets of devices are candidate sets (docs/architecture.md §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The counts and sets that AWS documents.
    #[default]
    Documented,
    /// Any linked set of a count that the runtime supports.
    Linked,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Documented => "documented",
            Policy::Linked => "linked",
        })
    }
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a placement policy; use documented or linked")]
pub struct PolicyError(String);

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        match text {
            "documented" => Ok(Policy::Documented),
            "linked" => Ok(Policy::Linked),
            _ => Err(PolicyError(text.to_owned())),
        }
    }
}
