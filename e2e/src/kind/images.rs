//! The suite's images: built, taken from Docker or from a file, and loaded into the nodes of clusters.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use kind_driver::doctor::Finding;
use kind_driver::{images, program};
use tempfile::{NamedTempFile, TempPath};

/// The images of the suite, by the tag that `cargo xtask images` gives.
const IMAGES: [&str; 4] =
    ["neuron-extender:dev", "neuron-device-plugin:dev", "fake-neuron:dev", "neuron-workload:dev"];
/// The image of scenario pods.
pub const WORKLOAD: &str = "neuron-workload:dev";
/// The checkout that this program was built in, which another machine lacks.
const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Where the suite's images come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A file that `docker save` made.
    Archive(PathBuf),
    /// Docker; built from a checkout first where it lacks one.
    Docker,
    /// A checkout of this project, from which they are built anew.
    Checkout(PathBuf),
    /// The checkout that this program was built in where it is there, else Docker.
    Newest,
}

/// The images, ready to be loaded into nodes.
pub struct Images {
    file: PathBuf,
    /// Where they were packed for this run.
    _packed: Option<TempPath>,
}

impl ImageSource {
    /// What keeps the images from being had, and what to do about it; none if nothing does.
    pub async fn missing(&self) -> Option<Finding> {
        let why = match self {
            ImageSource::Archive(file) => images::check(file, &IMAGES).await.err()?.to_string(),
            ImageSource::Checkout(folder) if !is_checkout(folder) => {
                format!("{} is no checkout of this project: it has no xtask", folder.display())
            }
            ImageSource::Checkout(_) => return None,
            ImageSource::Docker | ImageSource::Newest if is_checkout(Path::new(CHECKOUT)) => return None,
            ImageSource::Docker | ImageSource::Newest => {
                let missing = missing_in_docker().await;
                if missing.is_empty() {
                    return None;
                }
                format!(
                    "Docker lacks {}; give --images FILE.tar, or --source with a checkout",
                    missing.join(", ")
                )
            }
        };
        Some(Finding { what: "images", found: Err(why) })
    }

    /// Has the images at hand.
    ///
    /// # Errors
    /// They cannot be built or packed, or the file lacks some.
    pub async fn ready(&self) -> anyhow::Result<Images> {
        match self {
            ImageSource::Archive(file) => {
                images::check(file, &IMAGES).await?;
                return Ok(Images { file: file.clone(), _packed: None });
            }
            ImageSource::Checkout(folder) => build(folder).await?,
            ImageSource::Newest if is_checkout(Path::new(CHECKOUT)) => build(Path::new(CHECKOUT)).await?,
            ImageSource::Docker | ImageSource::Newest => {
                if !missing_in_docker().await.is_empty() {
                    build(Path::new(CHECKOUT)).await?;
                }
            }
        }
        let packed = NamedTempFile::with_suffix(".tar").context("a file for the images")?.into_temp_path();
        images::pack(&IMAGES, &packed).await?;
        Ok(Images { file: packed.to_path_buf(), _packed: Some(packed) })
    }
}

impl Images {
    /// Loads the images into every node of the cluster.
    pub(super) async fn load(&self, cluster: &str) -> anyhow::Result<()> {
        images::load(cluster, &self.file).await
    }
}

async fn missing_in_docker() -> Vec<&'static str> {
    let mut missing = Vec::new();
    for image in IMAGES {
        if !images::is_there(image).await {
            missing.push(image);
        }
    }
    missing
}

fn is_checkout(folder: &Path) -> bool {
    folder.join("xtask/Cargo.toml").exists()
}

async fn build(checkout: &Path) -> anyhow::Result<()> {
    if !is_checkout(checkout) {
        bail!("the images cannot be built: {} is no checkout of this project", checkout.display());
    }
    let manifest = checkout.join("Cargo.toml").display().to_string();
    let arguments = ["run", "--quiet", "--manifest-path", &manifest, "--package", "xtask", "--", "images"];
    program::output("cargo", &arguments).await.context("building the images")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_without_xtask_is_no_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let missing = ImageSource::Checkout(folder.path().to_owned()).missing().await.unwrap();
        assert_eq!(
            missing.found.unwrap_err(),
            format!("{} is no checkout of this project: it has no xtask", folder.path().display())
        );
        assert!(ImageSource::Checkout(CHECKOUT.into()).missing().await.is_none());
    }

    #[tokio::test]
    async fn a_file_without_our_images_is_refused_before_anything_is_made() {
        let missing = ImageSource::Archive("/nowhere/images.tar".into()).missing().await.unwrap();
        assert!(missing.found.unwrap_err().contains("/nowhere/images.tar"));
    }
}
