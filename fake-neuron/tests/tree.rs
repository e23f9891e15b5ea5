//! The whole tree of each driver: paths, modes and bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use common::{modes, place, read};
use fake_neuron::{Kind, Machine, MachineSpec};
use neuron_core::catalog::{Catalog, Generation};
use neuron_core::driver::Drivers;
use rstest::rstest;

#[rstest]
#[case("inf1.6xlarge", "2.21")]
#[case("inf2.24xlarge", "2.24")]
#[case("trn1.32xlarge", "2.24")]
#[case("trn2.48xlarge", "2.30")]
#[case("trn2u.48xlarge", "2.30")]
#[case("trn3.48xlarge", "2.28")]
#[case("trn2.3xlarge", "2.31-unknown")]
fn the_whole_tree_of_device_and_core_0(#[case] instance_type: &str, #[case] driver: &str) {
    let (_folder, root) = place();
    Machine::builder(instance_type).driver(driver).counters(true).up(&root).unwrap();
    let mut shown = modes(&root);
    shown.retain(|path, _| {
        let others = path.split('/').any(|part| {
            let id = part.strip_prefix("neuron_core").or(part.strip_prefix("neuron"));
            id.is_some_and(|id| id.parse::<u8>().is_ok_and(|id| id > 0))
        });
        !others && !path.starts_with(".fake-neuron")
    });
    let lines: String = shown.iter().map(|(path, what)| format!("{path} {what}\n")).collect();
    insta::assert_snapshot!(format!("whole_{instance_type}_{driver}"), lines);
}

#[test]
fn the_whole_tree_of_the_largest_type_takes_less_than_96_mib() {
    let (_folder, root) = place();
    Machine::builder("trn2.48xlarge").counters(true).up(&root).unwrap();
    let (bytes, entries) = taken(&root);
    assert!(entries > 20_000, "{entries} files and folders");
    assert!(bytes < 96 << 20, "{} MiB", bytes >> 20);
}

/// Bytes on the disk, inodes included, and how many entries there are.
fn taken(folder: &Path) -> (u64, u64) {
    /// XFS' inode; ext4's takes half of it.
    const INODE: u64 = 512;
    fs::read_dir(folder).unwrap().fold((0, 0), |(bytes, entries), entry| {
        let entry = entry.unwrap();
        let own = entry.metadata().unwrap();
        let below = if own.is_dir() { taken(&entry.path()) } else { (0, 0) };
        (bytes + own.blocks() * 512 + INODE + below.0, entries + 1 + below.1)
    })
}

/// In memory: a thousand folders of every type and driver would take a disk minutes.
#[test]
fn every_device_of_every_type_and_driver_has_the_same_files() {
    for model in Catalog::embedded().types() {
        let binding = Drivers::embedded().all().iter();
        for driver in binding.filter(|driver| driver.generations.contains(&model.generation)) {
            let files = Machine::builder(&model.name)
                .driver(&driver.line)
                .counters(true)
                .blueprint()
                .unwrap()
                .files();
            let mut by_device = BTreeMap::<u8, BTreeSet<(String, u32)>>::new();
            let mut by_core = BTreeMap::<(u8, u8), BTreeSet<String>>::new();
            let mut paths = BTreeSet::new();
            for file in &files {
                assert!(paths.insert(&file.path), "{} {}: {} twice", model.name, driver.line, file.path);
                let Some(below) = file.path.strip_prefix("sys/devices/virtual/neuron_device/neuron") else {
                    continue;
                };
                let (id, below) = below.split_once('/').unwrap();
                let id: u8 = id.parse().unwrap();
                let mode = match &file.kind {
                    Kind::File { mode, .. } => *mode,
                    _ => 0,
                };
                by_device.entry(id).or_default().insert((below.to_owned(), mode));
                if let Some((_, of_core)) = below.split_once("neuron_core") {
                    let (core, name) = of_core.split_once('/').unwrap();
                    by_core.entry((id, core.parse().unwrap())).or_default().insert(name.to_owned());
                }
            }
            let about = format!("{} with driver {}", model.name, driver.line);
            assert_eq!(by_device.len(), usize::from(model.devices), "{about}");
            assert!(by_device.values().all(|files| *files == by_device[&0]), "{about}");
            assert_eq!(
                by_core.len(),
                usize::from(model.devices) * usize::from(model.cores_per_device),
                "{about}"
            );
            assert!(by_core.values().all(|files| *files == by_core[&(0, 0)]), "{about}");
            // docs/reference/neuron.md §4.3: 24 statuses of 2, 13 memories of 3, 6 others of 2, arch_type, pe_cntrs.
            let engine = usize::from(model.generation != Generation::Inf1);
            assert_eq!(by_core[&(0, 0)].len(), 48 + 39 + 12 + 1 + engine, "{about}");
            let counters =
                by_device[&0].iter().filter(|(path, _)| path.contains("stats/memory_usage/host_mem/"));
            let of_device = counters.filter(|(path, _)| !path.contains("neuron_core")).count();
            assert_eq!(of_device, 24, "{about}");
        }
    }
}

#[test]
fn the_whole_tree_has_all_that_the_short_one_has() {
    for model in Catalog::embedded().types() {
        let of = |counters: bool| {
            let blueprint = Machine::builder(&model.name).counters(counters).blueprint().unwrap();
            blueprint.files().into_iter().map(|entry| (entry.path, entry.kind)).collect::<BTreeMap<_, _>>()
        };
        let (short, whole) = (of(false), of(true));
        assert!(short.iter().all(|(path, kind)| whole.get(path) == Some(kind)), "{}", model.name);
        assert!(whole.len() > short.len());
    }
}

#[rstest]
#[case("trn2.48xlarge", "2.30", &["current_perf_profile", "hbm_7200_capable"])]
#[case("ml.trn2u.48xlarge", "2.30", &["node_id_2", "node_id_4", "server_id_2", "server_id_4", "ultraserver_mode"])]
#[case("trn3e.24xlarge", "2.30", &["node_cnt", "node_id", "reservation_id", "ultraserver_mode"])]
#[case("trn2.48xlarge", "2.24", &["node_id_2", "node_id_4", "server_id_2", "server_id_4", "ultraserver_mode"])]
fn the_class_shows_what_the_driver_takes_the_machine_for(
    #[case] instance_type: &str,
    #[case] driver: &str,
    #[case] names: &[&str],
) {
    let files = Machine::builder(instance_type).driver(driver).counters(true).blueprint().unwrap().files();
    let mut shown: Vec<&str> =
        files.iter().filter_map(|file| file.path.strip_prefix("sys/class/neuron_device/")).collect();
    shown.retain(|name| name.strip_prefix("neuron").is_none_or(|id| id.parse::<u8>().is_err()));
    shown.sort_unstable();
    assert_eq!(shown, names);
}

#[test]
fn the_counters_are_part_of_what_the_machine_is() {
    let (_folder, root) = place();
    let counters = "sys/devices/virtual/neuron_device/neuron0/neuron_core0/stats/status";
    let spec =
        MachineSpec { instance_type: "trn1.2xlarge".to_owned(), lnc: None, instance_id: None, driver: None };
    assert!(!Machine::up(&spec, &root, Catalog::embedded()).unwrap().has_counters());
    assert!(!root.join(counters).exists());
    Machine::builder("trn1.2xlarge").counters(true).up(&root).unwrap();
    assert!(Machine::open(&root).unwrap().has_counters());
    assert_eq!(read(&root, &format!("{counters}/timeout/total")), "0\n");
    // A lost device comes back whole.
    let whole = modes(&root);
    let machine = Machine::open(&root).unwrap();
    machine.lose(0).unwrap();
    machine.restore(0).unwrap();
    assert!(modes(&root) == whole);
    Machine::up(&spec, &root, Catalog::embedded()).unwrap();
    assert!(!root.join(counters).exists());
    assert!(!root.join("proc/modules").exists() && !root.join("dev/kmsg").exists());
}

#[test]
fn the_marker_of_an_older_fake_neuron_is_read() {
    let (_folder, root) = place();
    Machine::builder("trn1.2xlarge").up(&root).unwrap();
    assert!(
        !read(&root, ".fake-neuron.json").contains("counters"),
        "nor is it made unreadable for an older one"
    );
}
