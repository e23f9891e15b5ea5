//! The list of planted bugs and the places where they are planted agree. Read as text: neither is in a normal build.
#![allow(clippy::disallowed_methods, reason = "a test reads the sources")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

use std::fs;
use std::path::{Path, PathBuf};

/// Where bugs may be planted.
const PROGRAMS: [&str; 4] = ["extender/src", "device-plugin/src", "runtime/src", "core/src"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What stands in quotes after each `before`.
fn quoted(text: &str, before: &str) -> Vec<String> {
    let after = text.split(before).skip(1).filter_map(|rest| rest.split_once('"'));
    after.map(|(name, _)| name.to_owned()).collect()
}

fn planted_in(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            names.extend(planted_in(&path));
        } else if !path.ends_with("runtime/src/planted.rs") {
            names.extend(quoted(&fs::read_to_string(&path).unwrap(), "is_planted(\""));
        }
    }
    names
}

#[test]
fn every_bug_of_the_list_is_planted_once_and_no_other() {
    let list = fs::read_to_string(root().join("e2e/simulation/src/planted.rs")).unwrap();
    let mut listed = quoted(&list, "planted(\"");
    let mut planted: Vec<String> =
        PROGRAMS.iter().flat_map(|folder| planted_in(&root().join(folder))).collect();
    listed.sort();
    planted.sort();
    assert_eq!(listed, planted, "on the left the list, on the right the sources");
    listed.dedup();
    assert_eq!(listed.len(), planted.len(), "a bug is listed or planted twice");
}

#[test]
fn the_plans_that_must_show_a_bug_are_kept() {
    let list = fs::read_to_string(root().join("e2e/simulation/src/planted.rs")).unwrap();
    let plans = quoted(&list, "shown_by(\"");
    assert!(!plans.is_empty(), "nothing is read of the list");
    for plan in plans {
        assert!(root().join("e2e/simulation/plans").join(&plan).exists(), "{plan}");
    }
}
