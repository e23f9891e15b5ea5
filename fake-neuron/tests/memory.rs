//! Trees in memory are those on a disk.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::collections::BTreeMap;

use common::{listing, place};
use fake_neuron::memory::{Tree, Trees};
use fake_neuron::{Health, Kind, Machine};
use neuron_core::catalog::Catalog;

/// As `listing` reads a folder.
fn shown(tree: &Tree) -> BTreeMap<String, String> {
    let what = |path: &str| match tree.kind(path).unwrap() {
        Kind::File { content, .. } => format!("{content:?}"),
        Kind::Link { target } => format!("-> {target}"),
        Kind::Node { .. } => "a device node, or an empty file where none may be made".to_owned(),
    };
    tree.paths().map(|path| (path.to_owned(), what(path))).collect()
}

#[test]
fn a_tree_in_memory_is_the_one_on_disk_for_every_type() {
    let mut trees = Trees::new();
    for model in Catalog::embedded().types() {
        let (_folder, root) = place();
        let builder = Machine::builder(&model.name).instance_id("i-0a");
        let machine = builder.up(&root).unwrap();
        let mut tree = trees.tree(builder.blueprint().unwrap());
        let same = |tree: &Tree, what: &str| {
            let mut disk = listing(&root);
            disk.remove(".fake-neuron.json");
            // Folders are only what leads to files.
            disk.retain(|_, what| what != "an empty folder");
            assert_eq!(shown(tree), disk, "{} {what}", model.name);
        };
        same(&tree, "new");
        for health in [Health::unhealthy("hbm"), Health::Healthy] {
            machine.set_health(0, &health).unwrap();
            tree.set_health(0, &health).unwrap();
            same(&tree, "with other health");
        }
        machine.lose(0).unwrap();
        tree.lose(0).unwrap();
        same(&tree, "without device 0");
        machine.restore(0).unwrap();
        tree.restore(0).unwrap();
        same(&tree, "restored");
    }
}

#[test]
fn trees_of_one_kind_share_what_is_the_same_and_change_alone() {
    let mut trees = Trees::new();
    let mut tree =
        |id: &str| trees.tree(Machine::builder("trn2.48xlarge").instance_id(id).blueprint().unwrap());
    let (mut first, second) = (tree("i-01"), tree("i-02"));
    let serial = "sys/devices/virtual/neuron_device/neuron3/info/serial_number";
    assert_ne!(first.read(serial), second.read(serial));
    assert_eq!(second.read("sys/devices/virtual/dmi/id/board_asset_tag"), Some("i-02\n"));
    let counter = "sys/devices/virtual/neuron_device/neuron3/stats/hardware/mem_ecc_uncorrected";
    first.write(counter, "5\n");
    first.remove("dev/neuron0");
    assert_eq!((first.read(counter), second.read(counter)), (Some("5\n"), Some("0\n")));
    assert!(first.kind("dev/neuron0").is_none() && second.kind("dev/neuron0").is_some());
    assert_eq!(first.paths().count() + 1, second.paths().count());
    assert_eq!(
        first.lose(16).unwrap_err().to_string(),
        "trn2.48xlarge has no device 16: its devices are 0 to 15"
    );
}
