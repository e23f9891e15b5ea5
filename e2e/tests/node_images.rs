//! The node images that are tested with are the same wherever they are named.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::collections::BTreeSet;
use std::path::Path;

use kind_driver::node_image::TESTED;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// Every name of a node image of kind in this text.
fn images(text: &str) -> BTreeSet<&str> {
    let words = text.split(|sign: char| sign.is_whitespace() || "`'\"".contains(sign));
    words.filter(|word| word.starts_with("kindest/node:")).collect()
}

#[test]
fn the_nightly_workflow_and_the_page_of_versions_have_every_tested_image_and_no_other() {
    for path in [".github/workflows/nightly.yml", "docs/versions.md"] {
        let text = read(path);
        assert_eq!(images(&text), TESTED.map(|image| image.name).into(), "{path}");
        for image in TESTED {
            assert!(text.contains(image.kubernetes), "{path} lacks {}", image.kubernetes);
        }
    }
}
