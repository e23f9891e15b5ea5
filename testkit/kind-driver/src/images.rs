//! Images on their way into nodes: from Docker, or from a file that `docker save` made.

use std::path::Path;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::program;

/// Whether Docker has the image.
pub async fn is_there(image: &str) -> bool {
    program::output("docker", &["image", "inspect", "--format", "{{.Id}}", image]).await.is_ok()
}

/// Packs images of Docker into one file, for [`load`].
///
/// # Errors
/// Docker lacks one of them, or the file cannot be written.
pub async fn pack(images: &[&str], file: &Path) -> anyhow::Result<()> {
    let path = file.display().to_string();
    let arguments: Vec<&str> =
        ["save", "--output", &path].into_iter().chain(images.iter().copied()).collect();
    program::output("docker", &arguments).await.context("packing the images")?;
    Ok(())
}

/// Loads every image of a file that [`pack`] or `docker save` made into every node of the cluster.
///
/// # Errors
/// There is no such cluster, or the file is none of images.
pub async fn load(cluster: &str, file: &Path) -> anyhow::Result<()> {
    let path = file.display().to_string();
    let load = program::output("kind", &["load", "image-archive", "--name", cluster, &path]).await;
    load.context("loading the images into the nodes")?;
    Ok(())
}

/// Checks that a file that `docker save` made has all of these images.
///
/// # Errors
/// It cannot be read, is none of images, or lacks some, which are named.
pub async fn check(file: &Path, images: &[&str]) -> anyhow::Result<()> {
    let path = file.display().to_string();
    let manifest =
        program::output("tar", &["--extract", "--to-stdout", "--file", &path, "manifest.json"]).await;
    let manifest = manifest.with_context(|| format!("{path} is no file that `docker save` made"))?;
    let missing = missing(&manifest, images).with_context(|| format!("manifest.json of {path}"))?;
    if !missing.is_empty() {
        bail!(
            "{path} lacks {}; make one with `docker save --output {path} {}`",
            missing.join(", "),
            images.join(" ")
        );
    }
    Ok(())
}

/// An image in `manifest.json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Packed {
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
}

/// Which of the images `manifest.json` does not list.
fn missing<'a>(manifest: &str, images: &[&'a str]) -> anyhow::Result<Vec<&'a str>> {
    let packed: Vec<Packed> = serde_json::from_str(manifest)?;
    let tags: Vec<String> =
        packed.into_iter().flat_map(|packed| packed.repo_tags.unwrap_or_default()).collect();
    Ok(images.iter().copied().filter(|image| !tags.iter().any(|tag| tag == image)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_a_file_lacks_is_named() {
        let manifest =
            r#"[{"Config":"a.json","RepoTags":["one:dev","uno:1"],"Layers":[]},{"RepoTags":null}]"#;
        assert_eq!(missing(manifest, &["one:dev", "two:dev"]).unwrap(), ["two:dev"]);
        assert_eq!(missing(manifest, &["uno:1"]).unwrap(), [""; 0]);
        assert!(missing("no json", &["one:dev"]).is_err());
    }

    #[tokio::test]
    async fn a_file_that_is_none_of_images_is_refused_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("images.tar");
        std::fs::write(&file, "no tar").unwrap();
        let error = check(&file, &["one:dev"]).await.unwrap_err();
        assert!(
            format!("{error:#}").starts_with(&format!("{} is no file that", file.display())),
            "{error:#}"
        );
    }
}
