//! A release of Kubernetes, as API servers, kubelets and the tags of images name it. Used by whoever does or expects
//! something only from a version on.

use std::fmt;
use std::str::FromStr;

/// A release of Kubernetes, such as `v1.37.2`. What a distribution adds to it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// The first number.
    pub major: u32,
    /// The second number, by which behaviour differs.
    pub minor: u32,
    /// The third number; 0 where the text has none.
    pub patch: u32,
}

/// A text that names no release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseError(String);

impl Release {
    /// Whether it is of this minor version or a later one.
    pub fn is_since(self, (major, minor): (u32, u32)) -> bool {
        self.minor_version() >= (major, minor)
    }

    /// Major and minor.
    pub fn minor_version(self) -> (u32, u32) {
        (self.major, self.minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "v{major}.{minor}.{patch}")
    }
}

impl FromStr for Release {
    type Err = ReleaseError;

    /// Reads texts such as `v1.37.2`, `v1.34.4-eks-113cf36`, `v1.34.4+k3s1` and `1.36`.
    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let numbers = text.strip_prefix('v').unwrap_or(text).split(['+', '-']).next().unwrap_or_default();
        let numbers: Result<Vec<u32>, _> = numbers.split('.').map(str::parse).collect();
        match numbers.as_deref() {
            Ok([major, minor]) => Ok(Self { major: *major, minor: *minor, patch: 0 }),
            Ok([major, minor, patch]) => Ok(Self { major: *major, minor: *minor, patch: *patch }),
            _ => Err(ReleaseError(text.to_owned())),
        }
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no release of Kubernetes; one is written as v1.37.2 or 1.37", self.0)
    }
}

impl std::error::Error for ReleaseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distributions_sign_is_no_part_of_the_release() {
        for text in ["v1.34.4", "v1.34.4-eks-113cf36", "v1.34.4+k3s1", "1.34.4"] {
            assert_eq!(text.parse::<Release>().unwrap().to_string(), "v1.34.4");
        }
        for text in ["v1.37+", "1.37", "v1.37.0-alpha.1"] {
            assert_eq!(text.parse::<Release>().unwrap().to_string(), "v1.37.0");
        }
    }

    #[test]
    fn what_is_no_release_is_told_by_its_text() {
        for text in ["", "v1", "v1.34.4.5", "1.x", "latest"] {
            let error = text.parse::<Release>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is no release of Kubernetes")), "{error}");
        }
    }

    #[test]
    fn minor_versions_are_compared_as_numbers() {
        let release: Release = "v1.37.2".parse().unwrap();
        assert!(release.is_since((1, 37)) && release.is_since((1, 9)));
        assert!(!release.is_since((1, 38)) && !release.is_since((2, 0)));
    }
}
