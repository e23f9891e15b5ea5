//! The Kubernetes versions that the cluster can be, and what differs between them. Set once on the
//! [`ApiServer`](crate::ApiServer); kubelet and scheduler of one cluster follow it.

use std::fmt;
use std::str::FromStr;

use testkit_support::{Release, ReleaseError};

/// A Kubernetes version that the cluster behaves as. `FromStr` and `Display` write it as `1.37`.
///
/// What 1.37 does and 1.34 does not: kubelet keeps plugins by socket path, shows a container's ids and their health in its
/// status, and hides pods that have ended from podresources `Get`. A Binding clears the nomination, brings its own labels and
/// the node's zone and region to the pod, and needs a possible name of a node. FailedScheduling says nothing of claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 1.34, the oldest that is tested.
    V1_34,
    /// 1.37, the newest.
    #[default]
    V1_37,
}

/// What one version does and another does not (docs/reference/kubernetes.md §8). The number in brackets is the first
/// version that does it. What differs and has no row is not there in either: the events of kubelet, in-place resize, and
/// [1.36] what is said of victims that are still being bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// The release whose sources and runs the rest is taken from. `/version` and the Node's `kubeletVersion` say it.
    pub(crate) release: &'static str,
    /// [1.37] kubelet keeps plugins by socket path: it refuses a path that it still holds, and the end of one plugin leaves
    /// those on other paths. Without it the newest registration wins and the end of any stream drops the newest.
    pub(crate) plugins_by_path: bool,
    /// [1.36] A container's status says which ids it has and how they are (gate ResourceHealthStatus).
    pub(crate) resource_health: bool,
    /// [1.35] podresources Get knows only pods that have not ended.
    pub(crate) podresources_get_leaves_out_ended: bool,
    /// [1.37] kubelet serves its pods on a socket of their own (gate KubeletPodsAPI).
    pub(crate) pods_api: bool,
    /// [1.35] A Binding clears `status.nominatedNodeName` (gate ClearingNominatedNodeNameAfterBinding).
    pub(crate) binding_clears_nomination: bool,
    /// [1.37] A Binding's `target.name` must be a node's possible name (ValidatePodBinding).
    pub(crate) binding_checks_node_name: bool,
    /// [1.35] A pod takes over the labels of its Binding and its node's zone and region, these also when it is created on
    /// the node (gate PodTopologyLabelsAdmission).
    pub(crate) topology_labels: bool,
    /// [1.37] FailedScheduling no longer says `no new claims to deallocate` of pods without claims (kubernetes PR 140222).
    pub(crate) silent_about_claims: bool,
    /// [1.37] FailedScheduling says that pods were ended for the pod, and where.
    pub(crate) tells_preemption: bool,
}

/// Why a server's version is none that the cluster can be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerVersionError {
    /// It is older than the oldest.
    #[error("the API server is Kubernetes {server}, and {} is the oldest that is supported", Version::ALL[0])]
    TooOld {
        /// What the server calls itself, such as `v1.33.1`.
        server: String,
    },
    /// It does not begin with major and minor.
    #[error(transparent)]
    Unreadable(#[from] ReleaseError),
}

/// A version that the cluster cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no Kubernetes version {0:?} here: 1.34 and 1.37 are")]
pub struct UnknownVersion(String);

impl Version {
    /// Every version, oldest first.
    pub const ALL: [Version; 2] = [Version::V1_34, Version::V1_37];

    /// The newest version that is not newer than the server with this `gitVersion`, such as `v1.37.2`.
    ///
    /// # Errors
    /// The server is older than every version, or the text is none of a version.
    pub fn of_server(git_version: &str) -> Result<Version, ServerVersionError> {
        let server: Release = git_version.parse().map_err(ServerVersionError::from)?;
        let not_newer = |version: &Version| server.is_since(version.numbers());
        let newest = Self::ALL.into_iter().rfind(not_newer);
        newest.ok_or_else(|| ServerVersionError::TooOld { server: git_version.to_owned() })
    }

    /// Whether the server with this `gitVersion` is of this very version.
    pub fn is_of_server(self, git_version: &str) -> bool {
        git_version.parse().is_ok_and(|server: Release| server.minor_version() == self.numbers())
    }

    /// Major and minor.
    pub(crate) fn numbers(self) -> (u32, u32) {
        match self {
            Version::V1_34 => (1, 34),
            Version::V1_37 => (1, 37),
        }
    }

    /// The one table of what differs.
    pub(crate) fn behaviour(self) -> Behaviour {
        match self {
            Version::V1_34 => Behaviour {
                release: "v1.34.4",
                plugins_by_path: false,
                resource_health: false,
                podresources_get_leaves_out_ended: false,
                pods_api: false,
                binding_clears_nomination: false,
                binding_checks_node_name: false,
                topology_labels: false,
                silent_about_claims: false,
                tells_preemption: false,
            },
            Version::V1_37 => Behaviour {
                release: "v1.37.2",
                plugins_by_path: true,
                resource_health: true,
                podresources_get_leaves_out_ended: true,
                pods_api: true,
                binding_clears_nomination: true,
                binding_checks_node_name: true,
                topology_labels: true,
                silent_about_claims: true,
                tells_preemption: true,
            },
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.numbers();
        write!(f, "{major}.{minor}")
    }
}

impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        Self::ALL
            .into_iter()
            .find(|version| version.to_string() == text)
            .ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_oldest("v1.34.0", Some(Version::V1_34))]
    #[case::between("v1.36.3", Some(Version::V1_34))]
    #[case::the_newest("v1.37.2", Some(Version::V1_37))]
    #[case::newer("v1.38.0-alpha.1", Some(Version::V1_37))]
    #[case::another_major("v2.0.0", Some(Version::V1_37))]
    #[case::of_a_vendor("v1.37+", Some(Version::V1_37))]
    #[case::too_old("v1.33.9", None)]
    #[case::no_version("main", None)]
    fn a_server_is_the_newest_version_that_is_not_newer(
        #[case] server: &str,
        #[case] version: Option<Version>,
    ) {
        assert_eq!(Version::of_server(server).ok(), version);
    }

    #[test]
    fn what_cannot_be_is_said_with_what_can() {
        let too_old = Version::of_server("v1.33.9").unwrap_err();
        assert_eq!(
            too_old.to_string(),
            "the API server is Kubernetes v1.33.9, and 1.34 is the oldest that is supported"
        );
        let unreadable = Version::of_server("main").unwrap_err();
        assert_eq!(
            unreadable.to_string(),
            "\"main\" is no release of Kubernetes; one is written as v1.37.2 or 1.37"
        );
        let unknown = "1.36".parse::<Version>().unwrap_err();
        assert_eq!(unknown.to_string(), "no Kubernetes version \"1.36\" here: 1.34 and 1.37 are");
    }
}
