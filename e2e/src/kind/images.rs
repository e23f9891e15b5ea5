//! The suite's images: built where they are missing, loaded into the cluster's nodes.

use anyhow::Context as _;

use super::program;

/// The images of the suite, by the tag that `cargo xtask images` gives.
pub(super) const IMAGES: [&str; 4] =
    ["neuron-extender:dev", "neuron-device-plugin:dev", "fake-neuron:dev", "neuron-workload:dev"];
/// The image of scenario pods.
pub const WORKLOAD: &str = "neuron-workload:dev";

/// Whether Docker has the image.
pub(super) async fn is_there(image: &str) -> bool {
    program::output("docker", &["image", "inspect", "--format", "{{.Id}}", image]).await.is_ok()
}

/// Builds the images from the workspace that this program was built in; with `reuse` only where one is missing.
pub(super) async fn build(reuse: bool) -> anyhow::Result<()> {
    let mut missing = !reuse;
    for image in IMAGES {
        missing |= !is_there(image).await;
    }
    if missing {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let arguments = ["run", "--quiet", "--manifest-path", manifest, "--package", "xtask", "--", "images"];
        program::output("cargo", &arguments).await.context("building the images")?;
    }
    Ok(())
}

/// Loads the images into every node of the cluster.
pub(super) async fn load(cluster: &str) -> anyhow::Result<()> {
    let mut arguments = vec!["load", "docker-image", "--name", cluster];
    arguments.extend(IMAGES);
    program::output("kind", &arguments).await.context("loading the images into the nodes")?;
    Ok(())
}
