//! A release of Kubernetes, as API servers, kubelets and the tags of images name it. Used by [`crate::Cluster`],
//! [`crate::node_image`] and whoever does something only from a version on.

use std::fmt;
use std::str::FromStr;

use anyhow::Context as _;

/// A release of Kubernetes, such as `v1.37.2`. What a distribution adds to it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The first number.
    pub major: u32,
    /// The second number, by which behaviour differs.
    pub minor: u32,
    /// The third number.
    pub patch: u32,
}

impl Release {
    /// Whether it is of this minor version or a later one.
    pub fn is_since(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "v{major}.{minor}.{patch}")
    }
}

impl FromStr for Release {
    type Err = anyhow::Error;

    /// Reads texts such as `v1.37.2`, `v1.34.4-eks-113cf36` and `v1.34.4+k3s1`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let numbers = text.strip_prefix('v').and_then(|text| text.split(['+', '-']).next());
        let numbers: Option<Vec<u32>> =
            numbers.and_then(|numbers| numbers.split('.').map(|number| number.parse().ok()).collect());
        match numbers.as_deref() {
            Some([major, minor, patch]) => Some(Self { major: *major, minor: *minor, patch: *patch }),
            _ => None,
        }
        .with_context(|| format!("{text:?} is no release of Kubernetes; one is written as v1.37.2"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distributions_sign_is_no_part_of_the_release() {
        for text in ["v1.34.4", "v1.34.4-eks-113cf36", "v1.34.4+k3s1"] {
            assert_eq!(text.parse::<Release>().unwrap().to_string(), "v1.34.4");
        }
    }

    #[test]
    fn what_is_no_release_is_told_by_its_text() {
        for text in ["", "v1.34", "1.34.4", "v1.34.4.5", "latest"] {
            let error = text.parse::<Release>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no release of Kubernetes")), "{error}");
        }
    }

    #[test]
    fn minor_versions_are_compared_as_numbers() {
        let release: Release = "v1.37.2".parse().unwrap();
        assert!(release.is_since(1, 37) && release.is_since(1, 9));
        assert!(!release.is_since(1, 38) && !release.is_since(2, 0));
    }
}
