//! The Kubernetes versions that the cluster can be, and what differs between them. Set once on the
//! [`ApiServer`](crate::ApiServer); kubelet and scheduler of one cluster follow it.

use std::fmt;
use std::str::FromStr;

/// A Kubernetes version that the cluster behaves as. `FromStr` and `Display` write it as `1.37`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 1.34, the oldest that is tested.
    V1_34,
    /// 1.37, the newest.
    #[default]
    V1_37,
}

/// What one version does and another does not (docs/reference/kubernetes.md §8). Each field is read at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// kubelet keeps plugins by socket path: it refuses a path that it still holds, and the end of one plugin leaves those
    /// on other paths. Without it the newest registration wins and the end of any stream drops the newest.
    pub(crate) plugins_by_path: bool,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Version; 2] = [Version::V1_34, Version::V1_37];

    /// The one table of what differs.
    pub(crate) fn behaviour(self) -> Behaviour {
        match self {
            Version::V1_34 => Behaviour { plugins_by_path: false },
            Version::V1_37 => Behaviour { plugins_by_path: true },
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Version::V1_34 => "1.34",
            Version::V1_37 => "1.37",
        })
    }
}

/// A version that the cluster cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no Kubernetes version {0:?} here: 1.34 and 1.37 are")]
pub struct UnknownVersion(String);

impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL
            .into_iter()
            .find(|version| version.to_string() == text)
            .ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}
