//! `neuron-ls`: what it prints of every shape and type, against captures of the real program where there are some.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod listing;

use std::fs;

use common::{place, spec, up};
use fake_neuron::{Machine, MachineSpec};
use listing::{devices, neuron_ls, printed, stdout, write_processes};
use neuron_core::catalog::{Catalog, Generation, InstanceType};
use rstest::rstest;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::{Value, json};

#[rstest]
#[case::inf1_line("inf1.6xlarge", None)]
#[case::inf2_line("inf2.24xlarge", None)]
#[case::ring("inf2.48xlarge", None)]
#[case::single("trn1.2xlarge", None)]
#[case::torus("trn1.32xlarge", None)]
#[case::lnc2("trn2.48xlarge", Some(2))]
#[case::lnc1("trn2.48xlarge", Some(1))]
#[case::switch("trn3.48xlarge", None)]
#[case::small_switch("trn3e.24xlarge", None)]
fn tables_and_drawings(#[case] name: &str, #[case] lnc: Option<u8>) {
    let (_folder, root) = place();
    up(&MachineSpec { lnc, ..spec(name) }, &root).unwrap();
    let lnc = lnc.map(|lnc| format!("_lnc{lnc}")).unwrap_or_default();
    insta::assert_snapshot!(format!("topology_{name}{lnc}"), printed(&root, &["--topology"]));
    let drawing_starts = printed(&root, &["-t"]).find("\n\nNeuron Device Topology").unwrap();
    assert_eq!(printed(&root, &[]), printed(&root, &["-t"])[..drawing_starts]);
}

#[rstest]
#[case("trn1.2xlarge", None)]
#[case("inf1.6xlarge", None)]
#[case("trn2.3xlarge", Some(1))]
fn lists_as_json(#[case] name: &str, #[case] lnc: Option<u8>) {
    let (_folder, root) = place();
    up(&MachineSpec { lnc, ..spec(name) }, &root).unwrap();
    insta::assert_snapshot!(format!("json_{name}"), printed(&root, &["--json-output"]));
}

/// The trn2n.48xlarge of `tools/neuron-sys-tools/neuron-ls.rst` in the Neuron SDK's docs, its first and last devices.
#[test]
fn the_table_is_that_of_the_documentation() {
    let (_folder, root) = place();
    let id = Some("i-aabbccdd123456789".to_owned());
    up(&MachineSpec { instance_id: id, ..spec("trn2n.48xlarge") }, &root).unwrap();
    let text = printed(&root, &[]);
    let documented = "\
instance-type: trn2n.48xlarge
instance-id: i-aabbccdd123456789
logical-neuroncore-config: 2
+--------+--------+----------+--------+---------------+--------------+---------------+------+
| NEURON | NEURON |  NEURON  | NEURON |   CONNECTED   |     PCI      |      CPU      | NUMA |
| DEVICE | CORES  | CORE IDS | MEMORY |    DEVICES    |     BDF      |   AFFINITY    | NODE |
+--------+--------+----------+--------+---------------+--------------+---------------+------+
| 0      | 4      | 0-3      | 96 GB  | 12, 3, 4, 1   | 0000:cc:00.0 | 48-95,144-191 | 1    |
| 1      | 4      | 4-7      | 96 GB  | 13, 0, 5, 2   | 0000:b5:00.0 | 48-95,144-191 | 1    |
";
    assert_eq!(text[..documented.len()], *documented);
    let last = "\
| 15     | 4      | 60-63    | 96 GB  | 11, 14, 3, 12 | 0000:f7:00.0 | 48-95,144-191 | 1    |
+--------+--------+----------+--------+---------------+--------------+---------------+------+
";
    assert!(text.ends_with(last), "{text}");
    assert_eq!(text.lines().count(), 3 + 4 + 16 + 1);
}

/// Captured on trn2.3xlarge with tools 2.32.28, in 2026.
#[test]
fn a_table_without_links_is_as_captured() {
    let (_folder, root) = place();
    let id = Some("i-05cd290773905969e".to_owned());
    up(&MachineSpec { instance_id: id, ..spec("trn2.3xlarge") }, &root).unwrap();
    assert_eq!(
        printed(&root, &[]),
        "\
instance-type: trn2.3xlarge
instance-id: i-05cd290773905969e
logical-neuroncore-config: 2
+--------+--------+----------+--------+--------------+----------+------+
| NEURON | NEURON |  NEURON  | NEURON |     PCI      |   CPU    | NUMA |
| DEVICE | CORES  | CORE IDS | MEMORY |     BDF      | AFFINITY | NODE |
+--------+--------+----------+--------+--------------+----------+------+
| 0      | 4      | 0-3      | 96 GB  | 0000:33:00.0 | 0-11     | 0    |
+--------+--------+----------+--------+--------------+----------+------+
"
    );
}

/// A trn1.2xlarge captured in 2025, but for the runtime's version.
#[test]
fn a_process_has_its_columns_as_captured() {
    let (_folder, root) = place();
    let id = Some("i-09e7a3b60c6a6eac8".to_owned());
    up(&MachineSpec { instance_id: id, ..spec("trn1.2xlarge") }, &root).unwrap();
    let command = "python equinox_mnist_verification.py";
    write_processes(&root, &json!([{"pid": 16237, "command": command, "devices": [0], "cores": [0, 1]}]));
    assert_eq!(
        printed(&root, &[]),
        "\
instance-type: trn1.2xlarge
instance-id: i-09e7a3b60c6a6eac8
+--------+--------+----------+--------+--------------+-------+----------+------+--------------------------------------+---------+
| NEURON | NEURON |  NEURON  | NEURON |     PCI      |  PID  |   CPU    | NUMA |               COMMAND                | RUNTIME |
| DEVICE | CORES  | CORE IDS | MEMORY |     BDF      |       | AFFINITY | NODE |                                      | VERSION |
+--------+--------+----------+--------+--------------+-------+----------+------+--------------------------------------+---------+
| 0      | 2      | 0-1      | 32 GB  | 0000:00:1e.0 | 16237 | 0-7      | -1   | python equinox_mnist_verification.py | 2.34.10 |
+--------+--------+----------+--------+--------------+-------+----------+------+--------------------------------------+---------+
"
    );
}

/// Host device 13 of a trn2.48xlarge in a pod, captured in 2026: counted from 0, with the host's address and neighbours.
#[test]
fn in_a_container_devices_are_counted_from_0_as_captured() {
    let (_folder, root) = place();
    let id = Some("i-0dcf246b9a7d5f066".to_owned());
    up(&MachineSpec { instance_id: id, ..spec("trn2.48xlarge") }, &root).unwrap();
    for device in 0..16 {
        fs::remove_file(root.join(format!("dev/neuron{device}"))).unwrap();
    }
    let node = root.join("dev/neuron0");
    let made = mknodat(CWD, &node, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(240, 13));
    if let Err(refused) = made {
        assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "device nodes may not be made: {refused}");
        println!("skipped: device nodes may not be made here: {refused}");
        return;
    }
    write_processes(
        &root,
        &json!([
            {"pid": 1966680, "command": "", "devices": [13], "cores": [104, 105, 106, 107]},
            {"pid": 1966681, "command": "", "devices": [13], "cores": [108, 109, 110, 111]},
            {"pid": 1966682, "command": "of another container", "devices": [12], "cores": [96, 97]}
        ]),
    );
    assert_eq!(
        printed(&root, &[]),
        "\
instance-type: trn2.48xlarge
instance-id: i-0dcf246b9a7d5f066
logical-neuroncore-config: 2
+--------+--------+----------+--------+--------------+--------------+---------+---------------+------+---------+
| NEURON | NEURON |  NEURON  | NEURON |  CONNECTED   |     PCI      |   PID   |      CPU      | NUMA | RUNTIME |
| DEVICE | CORES  | CORE IDS | MEMORY |   DEVICES    |     BDF      |         |   AFFINITY    | NODE | VERSION |
+--------+--------+----------+--------+--------------+--------------+---------+---------------+------+---------+
| 0      | 4      | 0-3      | 96 GB  | 12, 1, 9, 14 | 0000:e1:00.0 | 1966680 | 48-95,144-191 | 1    | 2.34.10 |
|        |        |          |        |              |              | 1966681 |               |      | 2.34.10 |
+--------+--------+----------+--------+--------------+--------------+---------+---------------+------+---------+
"
    );
    let captured = r#"[
    {
        "instance_type": "trn2.48xlarge",
        "instance_id": "i-0dcf246b9a7d5f066",
        "neuron_device": 0,
        "bdf": "0000:e1:00.0",
        "cpu_affinity": "48-95,144-191",
        "numa_node": "1",
        "connected_to": [
            12,
            1,
            9,
            14
        ],
        "nc_count": 4,
        "logical_neuroncore_config": 2,
        "memory_size": 103079215104,
        "neuroncore_ids": [
            0,
            1,
            2,
            3
        ],
        "neuron_processes": [
            {
                "pid": 1966680,
                "command": "",
                "neuron_runtime_version": "2.34.10"
            },
            {
                "pid": 1966681,
                "command": "",
                "neuron_runtime_version": "2.34.10"
            }
        ]
    }
]"#;
    assert_eq!(printed(&root, &["--json-output"]), captured);
}

#[test]
fn processes_of_several_devices_are_ruled_apart() {
    let (_folder, root) = place();
    up(&spec("inf1.6xlarge"), &root).unwrap();
    let command =
        "neuron-app01 infer --input-data-directory ~/my_input_data --inference-count 5000 --output out.json";
    write_processes(
        &root,
        &json!([
            {"pid": 23518, "command": command, "devices": [0, 1], "cores": [0, 1, 2, 3, 4]},
            {"pid": 23531, "command": "neuron-app02 <&>", "devices": [0], "cores": [5]},
            {"pid": 23764, "command": "neuron-monitor", "devices": [0, 1, 2, 3], "cores": []}
        ]),
    );
    insta::assert_snapshot!("processes", printed(&root, &[]));
    insta::assert_snapshot!("processes_wide", printed(&root, &["-w"]));
    assert!(printed(&root, &["-j"]).contains(r#""command": "neuron-app02 \u003c\u0026\u003e","#));
}

#[test]
fn all_processes_are_those_that_only_look_too_and_this_program() {
    let (_folder, root) = place();
    up(&spec("inf1.6xlarge"), &root).unwrap();
    write_processes(&root, &json!([{"pid": 7, "command": "neuron-monitor", "devices": [2], "cores": []}]));
    assert!(devices(&root, &["-j"]).iter().all(|device| device["neuron_processes"] == json!([])));

    let child = neuron_ls(&root)
        .args(["--show-all-procs", "-j"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let all: Vec<Value> = serde_json::from_str(&stdout(&child.wait_with_output().unwrap())).unwrap();
    let this =
        json!({"pid": pid, "command": "neuron-ls --show-all-procs -j", "neuron_runtime_version": "NA"});
    assert_eq!(all[1]["neuron_processes"], json!([this]));
    let monitor = json!({"pid": 7, "command": "neuron-monitor", "neuron_runtime_version": "NA"});
    assert_eq!(all[2]["neuron_processes"], json!([monitor, this]));
}

#[test]
fn an_idle_table_of_all_processes_says_that_none_has_a_runtime() {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let table = printed(&root, &["-a"]);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let [above, below, device] = rows.as_slice() else { panic!("{table}") };
    assert_eq!(
        (above.last(), below.last(), device.last()),
        (Some(&"RUNTIME"), Some(&"VERSION"), Some(&"NA"))
    );
    assert!(device.contains(&"neuron-ls -a"), "{table}");
    assert!(!printed(&root, &[]).contains("RUNTIME"), "without a process there is no such column");
}

/// Every type of the catalog at every LNC, in whole numbers.
#[test]
fn json_says_what_the_catalog_says() {
    for model in Catalog::embedded().types() {
        let has_logical_cores = model.generation >= Generation::Trn2;
        let settings: &[Option<u8>] =
            if has_logical_cores { &[None, Some(1), Some(2)] } else { &[None, Some(1)] };
        for lnc in settings {
            let (_folder, root) = place();
            let machine = up(&MachineSpec { lnc: *lnc, ..spec(&model.name) }, &root).unwrap();
            let shown = devices(&root, &["-j"]);
            assert_eq!(shown.len(), usize::from(model.devices), "{}", model.name);
            for (id, device) in shown.iter().enumerate() {
                let lnc = lnc.unwrap_or(model.default_lnc);
                assert_eq!(*device, expected(model, &machine, id, has_logical_cores.then_some(lnc)));
            }
        }
    }
}

fn expected(model: &InstanceType, machine: &Machine, id: usize, lnc: Option<u8>) -> Value {
    let cores = usize::from(model.cores_per_device / lnc.unwrap_or(1));
    let place = &fake_neuron::pci::places(&model.name, model.devices)[id];
    let links = &model.driver_links[id];
    let mut device = json!({
        "instance_type": model.name,
        "instance_id": machine.instance_id(),
        "neuron_device": id,
        "bdf": place.address.to_string(),
        "cpu_affinity": place.cpus,
        "numa_node": place.numa_node.map_or("-1".to_owned(), |node| node.to_string()),
        "connected_to": if links.is_empty() { Value::Null } else { json!(links) },
        "nc_count": cores,
        "memory_size": model.device_memory_bytes,
        "neuroncore_ids": (id * cores..(id + 1) * cores).collect::<Vec<_>>(),
        "neuron_processes": [],
    });
    if let Some(lnc) = lnc {
        device["logical_neuroncore_config"] = json!(lnc);
    }
    device
}
