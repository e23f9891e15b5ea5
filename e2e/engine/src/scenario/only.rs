//! Where a scenario can run, if not everywhere. Part of the scenario file's form; asked by the command line and by runs on
//! kind.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A scenario that only one kind of cluster can run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// `embedded` or `kind`.
    pub cluster: String,
    /// The oldest Kubernetes that can; any if not given.
    #[serde(default)]
    pub since: Option<Release>,
    /// Why others cannot.
    pub because: String,
}

impl Only {
    /// Why a cluster of this release cannot run it; `None` if it can.
    pub fn refuses(&self, release: Release) -> Option<String> {
        let since = self.since.filter(|since| release < *since)?;
        Some(format!("only on Kubernetes {since} and newer, this is {release}: {}", self.because))
    }
}

/// A minor release of Kubernetes, such as `1.36`; read from whole versions too, such as `v1.36.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Release {
    major: u32,
    minor: u32,
}

/// A text that names no release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no release of Kubernetes; write one as \"1.36\"")]
pub struct ReleaseError(String);

impl FromStr for Release {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let mut numbers = text.trim_start_matches('v').split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok(Self { major, minor }),
            _ => Err(ReleaseError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Release {
    type Error = ReleaseError;

    fn try_from(text: String) -> Result<Self, ReleaseError> {
        text.parse()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_refused_by_older_releases_only() {
        let only: Only =
            serde_json::from_value(serde_json::json!({"cluster": "kind", "since": "1.36", "because": "x"}))
                .unwrap();
        let refused = |release: &str| only.refuses(release.parse().unwrap());
        assert_eq!(refused("v1.36.0"), None);
        assert_eq!(refused("v1.100.0"), None);
        assert_eq!(refused("v1.9.3").unwrap(), "only on Kubernetes 1.36 and newer, this is 1.9: x");
        assert_eq!(
            "1".parse::<Release>().unwrap_err().to_string(),
            "\"1\" is no release of Kubernetes; write one as \"1.36\""
        );
    }
}
