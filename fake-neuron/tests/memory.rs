//! Trees in memory are those on a disk.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::collections::BTreeMap;

use common::{differences, listing, modes, place};
use fake_neuron::fault::{Fault, FaultError, FaultSpec, HardwareError, KERNEL_LOG, Put};
use fake_neuron::memory::{Tree, Trees};
use fake_neuron::{Blueprint, Health, Kind, Machine};
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

/// One or more of each kind, for a machine with a device 1 that is linked to device 0.
fn every_fault() -> Vec<Fault> {
    let (device, name) = (1, str::to_owned);
    let folder = "sys/class/neuron_device/neuron1";
    let hung = |path: &str| Fault::HungRead { path: Some(path.to_owned()), device: None };
    vec![
        Fault::DeviceLost { device },
        Fault::Ecc { device, counter: name("mem_ecc_uncorrected"), count: 7 },
        Fault::Unhealthy { device, components: vec![name("hbm")] },
        Fault::Unhealthy { device, components: vec![name("sram"), name("hbm")] },
        Fault::HealthStatus { device, file: name("hw_error_event"), value: 3 },
        Fault::HungRead { path: None, device: Some(device) },
        hung(&format!("{folder}/connected_devices")),
        hung("sys/module/neuron/version"),
        hung("sys/module/neuron/none"),
        Fault::Reset { device },
        Fault::DriverUnloaded {},
        Fault::LinkDown { device, other: 0 },
        Fault::WrongLnc { lnc: 1 },
        Fault::CoreHeld { core: 1, pid: 7 },
        Fault::KernelError { device, kind: HardwareError::DmaError },
    ]
}

/// The machine's files as `modes` reads a folder, once the faults' changes are made to them; without the kernel log.
fn broken(blueprint: &Blueprint, faults: &[(u32, &Fault)]) -> Result<BTreeMap<String, String>, FaultError> {
    let mut files: BTreeMap<String, String> = blueprint
        .files()
        .into_iter()
        .map(|entry| match entry.kind {
            Kind::File { content, mode } => (entry.path, format!("{mode:04o} {content:?}")),
            Kind::Link { target } => (entry.path, format!("-> {target}")),
            Kind::Node { .. } => {
                (entry.path, "0666 a device node, or an empty file where none may be made".to_owned())
            }
        })
        .collect();
    for change in blueprint.fault_changes(faults)? {
        let folder = format!("{}/", change.path);
        match change.put {
            Put::Nothing => files.retain(|path, _| *path != change.path && !path.starts_with(&folder)),
            Put::File { content, mode } => {
                files.insert(change.path, format!("{mode:04o} {content:?}"));
            }
            Put::Hung => {
                files.insert(change.path, "a FIFO".to_owned());
            }
            Put::HungFolder => {
                // The kernel's own and links answer.
                let answers = |path: &str, what: &str| {
                    ["dev", "uevent"].contains(&path) || path.starts_with("power/") || what.starts_with("-> ")
                };
                for (path, what) in &mut files {
                    if path.strip_prefix(&folder).is_some_and(|path| !answers(path, what)) {
                        *what = "a FIFO".to_owned();
                    }
                }
            }
        }
    }
    files.remove(KERNEL_LOG);
    Ok(files)
}

#[test]
fn every_fault_changes_a_tree_in_memory_as_it_changes_the_one_on_disk() {
    let every = every_fault();
    let missing = Fault::NAMES.iter().find(|name| !every.iter().any(|fault| fault.name() == **name));
    assert_eq!(missing, None, "each fault of the vocabulary is here");
    for instance_type in ["inf1.6xlarge", "inf2.48xlarge", "trn1.32xlarge", "trn2.48xlarge"] {
        let (_folder, root) = place();
        let has_counters = instance_type == "trn1.32xlarge";
        let builder = Machine::builder(instance_type).instance_id("i-0a").counters(has_counters);
        let machine = builder.up(&root).unwrap();
        let blueprint = builder.blueprint().unwrap();
        for fault in &every {
            let on_disk = || {
                let mut disk = modes(&root);
                // The marker is no part of the tree, and what happened once is only in the log of the one on disk.
                disk.retain(|path, what| {
                    path != ".fake-neuron.json" && path != KERNEL_LOG && what != "an empty folder"
                });
                disk
            };
            let what = format!("{fault} of {instance_type}");
            match (machine.strike(&FaultSpec::now(fault.clone())), broken(&blueprint, &[(1, fault)])) {
                (Ok(_), Ok(in_memory)) => assert_eq!(differences(&on_disk(), &in_memory), [""; 0], "{what}"),
                (Err(disk), Err(memory)) => {
                    let disk = disk.to_string().replace(root.to_str().unwrap(), "/");
                    assert_eq!(disk, memory.to_string(), "{what}");
                }
                (disk, memory) => panic!("{what}: {disk:?} on disk, {memory:?} in memory"),
            }
            machine.lift_all().unwrap();
            let healthy = broken(&blueprint, &[]).unwrap();
            assert_eq!(differences(&on_disk(), &healthy), [""; 0], "{what} is lifted");
        }
    }
}
