//! Node images: those that are tested with, and which Kubernetes any other is of. Used where clusters are made and by
//! [`crate::doctor`].

use testkit_support::Release;

use crate::program;

/// Where a node image says which Kubernetes it is of; kind reads it too.
const VERSION_FILE: &str = "/kind/version";

/// A node image that is tested with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// Its Kubernetes, major and minor version, such as `1.37`.
    pub kubernetes: &'static str,
    /// Its name with the digest that the release notes of kind 0.33 list.
    pub name: &'static str,
}

/// The node images that are tested with, newest first. CI's nightly workflow and `docs/versions.md` have the same.
pub const TESTED: [NodeImage; 2] = [
    NodeImage {
        kubernetes: "1.37",
        name: "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
    },
    NodeImage {
        kubernetes: "1.34",
        name: "kindest/node:v1.34.11@sha256:44e222ee2132dab25ff87301682f89eb82c7880ea3a1bf543bfe9708fd08d67d",
    },
];

/// The node image where none is given: the newest that is tested with. kind pulls it.
pub const DEFAULT: &str = TESTED[0].name;

/// The Kubernetes that a node image of this machine is of: what its tag says, else a file in it. None where neither does.
pub async fn release(image: &str) -> Option<Release> {
    if let Some(release) = release_of_tag(image) {
        return Some(release);
    }
    let arguments = ["run", "--rm", "--network", "none", "--entrypoint", "cat", image, VERSION_FILE];
    program::output("docker", &arguments).await.ok()?.trim().parse().ok()
}

/// The release that `kindest/node:v1.37.0@sha256:..` names as its tag.
fn release_of_tag(image: &str) -> Option<Release> {
    let (_, tag) = image.split('@').next()?.rsplit_once(':')?;
    tag.strip_prefix('v')?.parse().ok()
}

/// The versions that are tested, as in `1.37 and 1.34`.
pub(crate) fn tested_versions() -> String {
    TESTED.map(|image| image.kubernetes).join(" and ")
}

/// Whether images of this release's minor version are tested with.
pub(crate) fn is_tested(release: Release) -> bool {
    TESTED.iter().any(|image| image.kubernetes == format!("{}.{}", release.major, release.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_the_release_with_and_without_a_digest() {
        let release = |image| release_of_tag(image).map(|release| release.to_string());
        assert_eq!(release("kindest/node:v1.37.0@sha256:a1ed").as_deref(), Some("v1.37.0"));
        assert_eq!(release("registry:5000/mine/node:v1.34.4").as_deref(), Some("v1.34.4"));
        for silent in ["mine:1", "registry:5000/mine/node", "mine", "kindest/node@sha256:a1ed"] {
            assert_eq!(release(silent), None, "{silent}");
        }
    }

    #[test]
    fn every_tested_image_is_of_the_version_that_it_is_listed_for() {
        for image in TESTED {
            let Release { major, minor, .. } = release_of_tag(image.name).unwrap();
            assert_eq!(format!("{major}.{minor}"), image.kubernetes);
            assert!(is_tested(release_of_tag(image.name).unwrap()));
        }
        assert!(!is_tested("v1.33.1".parse().unwrap()));
    }
}
