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
    let words = text.split(|sign: char| sign.is_whitespace() || "=`'\"".contains(sign));
    words.filter(|word| word.starts_with("kindest/node:")).collect()
}

#[test]
fn ci_and_the_page_of_versions_have_the_tested_images_and_no_others() {
    for path in [".github/workflows/nightly.yml", "docs/versions.md"] {
        let text = read(path);
        assert_eq!(images(&text), TESTED.map(|image| image.name).into(), "{path}");
    }
    assert_eq!(images(&read(".ci/run")), [TESTED[0].name].into(), "CI uses the newest, by name");
}
