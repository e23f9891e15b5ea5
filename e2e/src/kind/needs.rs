//! What the suite's clusters need of this machine. Called by `neuron-e2e doctor` and before every run on kind.

use kind_driver::doctor::{self, Finding, Needs};

use super::ImageSource;

/// Clusters of one run by default.
pub const CLUSTERS: usize = 3;
/// The variable that names the node image.
pub const NODE_IMAGE_VARIABLE: &str = "NEURON_E2E_NODE_IMAGE";
/// Memory that the first cluster of a run, with three workers, needs beside everything else, and each other one, with
/// one worker; in MiB.
const MEMORY: (u64, u64) = (3072, 1536);

/// Looks at everything that so many clusters need that do not stand yet, in the order in which it is needed.
pub async fn look(node_image: Option<&str>, clusters: usize) -> Vec<Finding> {
    doctor::look(Needs {
        node_image,
        node_image_setting: NODE_IMAGE_VARIABLE,
        clusters,
        memory: memory(clusters),
        memory_remedy: (clusters > 1).then_some("give fewer --clusters"),
    })
    .await
}

/// Everything that keeps so many clusters with these images from being made, in one text; none if nothing does.
pub async fn missing(node_image: Option<&str>, images: &ImageSource, clusters: usize) -> Option<String> {
    let mut findings = look(node_image, clusters).await;
    findings.extend(images.missing().await);
    doctor::missing(&findings)
}

fn memory(clusters: usize) -> u64 {
    match clusters {
        0 => 0,
        some => MEMORY.0 + MEMORY.1 * (some - 1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_asked_for_clusters_that_do_not_stand_yet() {
        assert_eq!([0, 1, 3].map(memory), [0, 3072, 6144]);
    }
}
