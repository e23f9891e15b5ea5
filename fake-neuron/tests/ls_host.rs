//! Where `neuron-ls` has what it prints from: trees, settings, faults and roots; and how it fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod listing;

use std::fs;
use std::process::Command;

use common::{place, spec, up};
use fake_neuron::MachineSpec;
use listing::{devices, neuron_ls, printed, stdout, write_processes};
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case("2.21", "trn2.48xlarge")]
#[case("2.24", "trn2.48xlarge")]
#[case("2.30", "trn3.48xlarge")]
#[case::paths_unknown("2.31-unknown", "trn2.48xlarge")]
fn it_reads_the_tree_of_each_driver(#[case] driver: &str, #[case] name: &str) {
    let (_folder, root) = place();
    up(&MachineSpec { driver: Some(driver.to_owned()), ..spec(name) }, &root).unwrap();
    let shown = devices(&root, &["-j"]);
    assert_eq!(shown[13]["connected_to"], json!([12, 1, 9, 14]));
    assert_eq!((&shown[13]["nc_count"], shown.len()), (&json!(4), 16));
}

#[test]
fn the_environment_goes_before_the_setting_and_the_setting_before_the_default() {
    let (_folder, root) = place();
    up(&MachineSpec { lnc: Some(1), ..spec("trn2.3xlarge") }, &root).unwrap();
    let counted = |variable: &str, value: &str| {
        let output = neuron_ls(&root).arg("-j").env(variable, value).output().unwrap();
        let shown: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
        shown[0]["nc_count"].clone()
    };
    assert_eq!(counted("NEURON_LOGICAL_NC_CONFIG", "2"), 4);
    assert_eq!(counted("NEURON_RT_VIRTUAL_CORE_SIZE", "2"), 4);
    assert_eq!(counted("NEURON_LOGICAL_NC_CONFIG", "3"), 8, "no division of 8 cores: as if it were not set");
    fs::write(
        root.join("opt/aws/neuron/logical_nc_config"),
        "NEURON_LOGICAL_NC_CONFIG=1\nNEURON_LOGICAL_NC_CONFIG=2\n",
    )
    .unwrap();
    assert_eq!(devices(&root, &["-j"])[0]["nc_count"], 4, "the last line counts: bootstraps append");
}

#[test]
fn a_type_that_nobody_knows_is_read_from_sysfs() {
    let (_folder, root) = place();
    up(&spec("trn2.48xlarge"), &root).unwrap();
    let product_name = root.join("sys/devices/virtual/dmi/id/product_name");
    fs::remove_file(&product_name).unwrap();
    fs::write(&product_name, "trn9.48xlarge\n").unwrap();
    let shown = devices(&root, &["-j"]);
    assert_eq!((&shown[0]["instance_type"], &shown[0]["nc_count"]), (&json!("trn9.48xlarge"), &json!(4)));
    assert_eq!(
        (&shown[0]["memory_size"], &shown[0]["numa_node"]),
        (&json!(103_079_215_104_u64), &json!("-1"))
    );
}

#[test]
fn a_lost_device_is_not_listed() {
    let (_folder, root) = place();
    up(&spec("inf2.24xlarge"), &root).unwrap().lose(2).unwrap();
    let ids: Vec<Value> =
        devices(&root, &["-j"]).iter().map(|device| device["neuron_device"].clone()).collect();
    assert_eq!(ids, [0, 1, 3, 4, 5]);
    insta::assert_snapshot!("a_lost_device", printed(&root, &["-t"]));
}

/// By the same tools as everything else, within the second of the command.
#[test]
fn faults_are_seen() {
    let (_folder, root) = place();
    up(&spec("inf2.24xlarge"), &root).unwrap();
    let fault = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
        let output = command.arg("fault").args(arguments).arg("--root").arg(&root).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    fault(&["core-held", "--core", "3", "--pid", "4242"]);
    fault(&["link-down", "--device", "2", "--other", "3"]);
    fault(&["device-lost", "--device", "5"]);
    let shown = devices(&root, &["-j"]);
    assert_eq!(
        (shown.len(), &shown[2]["connected_to"], &shown[3]["connected_to"]),
        (5, &json!([1]), &json!([4]))
    );
    let holder = json!([{"pid": 4242, "command": "", "neuron_runtime_version": "2.34.10"}]);
    assert_eq!((&shown[0]["neuron_processes"], &shown[1]["neuron_processes"]), (&json!([]), &holder));

    fault(&["clear"]);
    let shown = devices(&root, &["-j"]);
    assert_eq!((shown.len(), &shown[1]["neuron_processes"]), (6, &json!([])));
    fault(&["driver-unloaded"]);
    assert_eq!(neuron_ls(&root).output().unwrap().status.code(), Some(1));
}

#[test]
fn a_list_of_processes_that_is_none_is_told() {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    write_processes(&root, &json!({"pid": 1}));
    let output = neuron_ls(&root).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("processes.json is no list of processes"), "{said}");
}

/// As captured on a host without the driver, but for the time.
#[test]
fn without_devices_it_fails_with_one_line_on_standard_error() {
    let (_folder, root) = place();
    fs::create_dir(&root).unwrap();
    for flags in [&[][..], &["-j"], &["--json-output"], &["-w"]] {
        let output = neuron_ls(&root).args(flags).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        let line = String::from_utf8(output.stderr).unwrap();
        let (time, rest) = line.split_at("time=\"2026-09-12T02:42:06Z\"".len());
        assert_eq!(
            rest,
            " level=fatal msg=\"Failed to load MLA system information\" error=\"failed to discover Neuron devices\"\n"
        );
        assert!(
            time.starts_with("time=\"20") && time.ends_with("Z\"") && time.as_bytes()[16] == b'T',
            "{time}"
        );
    }
}

#[rstest]
#[case(&["--badflag"], "unknown flag `badflag'\n")]
#[case(&["-j", "-x"], "unknown flag `x'\n")]
#[case(&["-jq"], "unknown flag `q'\n")]
#[case(&["--badflag=1"], "unknown flag `badflag'\n")]
#[case(&["--json-output=1"], "bool flag `-j, --json-output' cannot have an argument\n")]
#[case(&["-w=1"], "bool flag `-w, --wide' cannot have an argument\n")]
#[case(&["--root"], "expected argument for flag `--root'\n")]
fn a_bad_flag_is_told_on_standard_output(#[case] flags: &[&str], #[case] text: &str) {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let output = neuron_ls(&root).args(flags).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stdout).unwrap().as_str()), (Some(1), text));
    assert_eq!(output.stderr, b"");
}

#[test]
fn the_root_is_the_flags_then_the_variables() {
    let (_folder, root) = place();
    up(&spec("inf2.24xlarge"), &root).unwrap();
    let count = |command: &mut Command| -> usize {
        serde_json::from_str::<Vec<Value>>(&stdout(&command.output().unwrap())).unwrap().len()
    };
    let ls = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
        command.env_remove("NEURON_ROOT").env_remove("FAKE_NEURON_ROOT").args(["ls", "-j"]);
        command
    };
    assert_eq!(count(ls().arg("--root").arg(&root)), 6);
    assert_eq!(count(ls().arg(format!("--root={}", root.display())).env("FAKE_NEURON_ROOT", "/nowhere")), 6);
    assert_eq!(count(ls().env("NEURON_ROOT", &root)), 6);
    assert_eq!(count(ls().env("FAKE_NEURON_ROOT", &root).env("NEURON_ROOT", "/nowhere")), 6);
}

#[test]
fn help_names_the_flags() {
    let (_folder, root) = place();
    let help = printed(&root, &["--help"]);
    assert_eq!(help, printed(&root, &["-h"]));
    insta::assert_snapshot!("help_ls", help);
}
