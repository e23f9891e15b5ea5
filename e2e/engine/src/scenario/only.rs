//! Where a scenario can run, if not everywhere. Part of the scenario file's form; asked by the command line and by runs on
//! kind.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use testkit_support::Release;

/// A scenario that only one kind of cluster can run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// `embedded` or `kind`.
    pub cluster: String,
    /// The oldest Kubernetes that can, such as `1.36`; any if not given.
    #[serde(default, deserialize_with = "release")]
    pub since: Option<Release>,
    /// Why others cannot.
    pub because: String,
}

impl Only {
    /// Why a cluster of this release cannot run it; `None` if it can.
    pub fn refuses(&self, release: Release) -> Option<String> {
        let (major, minor) = self.since?.minor_version();
        (!release.is_since((major, minor))).then(|| {
            format!("only on Kubernetes {major}.{minor} and newer, this is {release}: {}", self.because)
        })
    }
}

fn release<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Release>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
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
        assert_eq!(refused("v1.9.3").unwrap(), "only on Kubernetes 1.36 and newer, this is v1.9.3: x");
        let wrong = serde_json::json!({"cluster": "kind", "since": "1", "because": "x"});
        let error = serde_json::from_value::<Only>(wrong).unwrap_err().to_string();
        assert!(error.starts_with("\"1\" is no release of Kubernetes"), "{error}");
    }
}
