//! A host's tree captured, shown, written and replayed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{modes, place, read, sysfs};
use fake_neuron::fault::{Fault, FaultSpec};
use fake_neuron::record::{Fixture, Limits, capture};
use fake_neuron::{Health, Machine};
use neuron_core::catalog::Catalog;
use rstest::rstest;

fn host(instance_type: &str, lnc: Option<u8>) -> (tempfile::TempDir, PathBuf) {
    let (folder, root) = place();
    let builder = Machine::builder(instance_type).instance_id("i-0realrealrealreal").counters(true);
    let builder = match lnc {
        Some(lnc) => builder.lnc(lnc),
        None => builder,
    };
    builder.up(&root).unwrap();
    (folder, root)
}

fn quick() -> Limits {
    Limits { time: Duration::from_millis(100), ..Limits::default() }
}

/// The tree without the marker, which describes the machine and not its hardware.
fn tree(root: &Path) -> std::collections::BTreeMap<String, String> {
    let mut tree = modes(root);
    tree.remove(".fake-neuron.json");
    tree
}

#[test]
fn every_type_is_replayed_as_it_was_captured() {
    for model in Catalog::embedded().types() {
        // One machine of each generation in full; for the others it is the same files in other numbers.
        let whole = [
            "inf1.6xlarge",
            "inf2.24xlarge",
            "trn1.2xlarge",
            "trn2.3xlarge",
            "trn2u.48xlarge",
            "trn3e.24xlarge",
        ];
        let (_folder, root) = place();
        Machine::builder(&model.name).counters(whole.contains(&model.name.as_str())).up(&root).unwrap();
        let fixture = capture(&root, true, &Limits::default()).unwrap();
        assert!(fixture.skipped.is_empty(), "{}: {:?}", model.name, fixture.skipped);
        let (folder, again) = place();
        let path = folder.path().join("fixture.json");
        fixture.write(&path).unwrap();
        assert_eq!(Fixture::read(&path).unwrap(), fixture);
        let machine = Fixture::read(&path).unwrap().up(&again).unwrap();
        let (captured, mut replayed) = (tree(&root), tree(&again));
        if !captured.contains_key("dev/kmsg") {
            replayed.remove("dev/kmsg");
        }
        assert!(captured == replayed, "{}", model.name);
        assert_eq!((machine.devices(), machine.instance_type()), (model.devices, model.name.as_str()));
        machine.down().unwrap();
        assert!(!again.exists(), "{}", model.name);
    }
}

#[test]
fn nothing_of_the_host_is_left_unless_it_is_to_be_kept() {
    let (_folder, root) = host("trn2u.48xlarge", Some(1));
    let serial = sysfs(&root, 3, "info/serial_number");
    let server = "sys/class/neuron_device/server_id_4";
    fs::write(root.join(server), "00112233445566aa\n").unwrap();
    let (folder, again) = place();
    let path = folder.path().join("fixture.json");
    let fixture = capture(&root, false, &Limits::default()).unwrap();
    fixture.write(&path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    for real in ["i-0realrealrealreal", serial.trim_end(), "00112233445566aa"] {
        assert!(!text.contains(real), "{real}");
    }
    fixture.up(&again).unwrap();
    let made_up = sysfs(&again, 3, "info/serial_number");
    assert!(made_up.len() == 17 && made_up != serial && made_up != sysfs(&again, 4, "info/serial_number"));
    assert_ne!(read(&again, server), "0000000000000000\n", "which means that there is none");
    assert_eq!(read(&again, "sys/class/neuron_device/server_id_2"), "0000000000000000\n");
    assert!(read(&again, "sys/class/dmi/id/board_asset_tag").starts_with("i-0"));
    assert_eq!(read(&again, "opt/aws/neuron/logical_nc_config"), "NEURON_LOGICAL_NC_CONFIG=1");
}

#[test]
fn a_real_hosts_own_numbers_are_replaced_and_its_own_files_not_read() {
    let (_folder, root) = host("trn1.2xlarge", None);
    let device = root.join("sys/devices/virtual/neuron_device/neuron0");
    fs::write(device.join("dev"), "248:0\n").unwrap();
    fs::write(device.join("uevent"), "MAJOR=248\nMINOR=0\nDEVNAME=neuron0\n").unwrap();
    fs::write(
        root.join("proc/devices"),
        "Character devices:\n  1 mem\n248 neuron\n\nBlock devices:\n259 blkext\n",
    )
    .unwrap();
    fs::write(
        root.join("proc/modules"),
        "ext4 1 1 - Live 0xffffffffc0000000\nneuron 331776 2 - Live 0xffffffffc1234000 (OE)\n",
    )
    .unwrap();
    fs::create_dir(root.join("sys/module/neuron/sections")).unwrap();
    fs::write(root.join("sys/module/neuron/sections/.text"), "0xffffffffc1234000\n").unwrap();
    fs::write(root.join("dev/kmsg"), "6,1,1,-;a secret of the host\n").unwrap();
    fs::write(root.join("sys/devices/virtual/dmi/id/board_serial"), "secret\n").unwrap();
    let (_other, again) = place();
    capture(&root, true, &Limits::default()).unwrap().up(&again).unwrap();
    assert_eq!(sysfs(&again, 0, "dev"), "120:0\n");
    assert_eq!(sysfs(&again, 0, "uevent"), "MAJOR=120\nMINOR=0\nDEVNAME=neuron0\n");
    assert_eq!(read(&again, "proc/devices"), "Character devices:\n120 neuron\n\nBlock devices:\n");
    assert_eq!(read(&again, "proc/modules"), "neuron 331776 2 - Live 0x0000000000000000 (OE)\n");
    assert_eq!(read(&again, "dev/kmsg"), "");
    assert!(!again.join("sys/module/neuron/sections").exists());
    assert!(!again.join("sys/devices/virtual/dmi/id/board_serial").exists());
}

#[test]
fn files_that_hang_or_cannot_be_taken_are_left_out_and_said() {
    let (_folder, root) = host("trn1.32xlarge", None);
    let machine = Machine::open(&root).unwrap();
    machine.strike(&FaultSpec::now(Fault::HungRead { path: None, device: Some(5) })).unwrap();
    let big = root.join("sys/module/neuron/parameters/wc_enable");
    fs::write(&big, vec![b'1'; 100_000]).unwrap();
    fs::write(root.join("sys/module/neuron/srcversion"), [0xff, 0xfe]).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("sys/class/neuron_device/etc")).unwrap();
    let fixture = capture(&root, true, &quick()).unwrap();
    machine.lift_all().unwrap();
    let why = |path: &str| {
        let found = fixture.skipped.iter().find(|skipped| skipped.path == path);
        found.map(|skipped| skipped.why.as_str())
    };
    assert_eq!(why("sys/module/neuron/parameters/wc_enable"), Some("more than 65536 bytes"));
    assert_eq!(why("sys/module/neuron/srcversion"), Some("no text"));
    assert_eq!(why("sys/class/neuron_device/etc"), Some("a link that does not stay below the root"));
    let device = "sys/devices/virtual/neuron_device/neuron5";
    assert_eq!(why(&format!("{device}/connected_devices")), Some("no answer within 100ms"));
    let unanswered = fixture.skipped.iter().filter(|skipped| skipped.why.starts_with("no answer")).count();
    assert_eq!(unanswered, 3, "after three the rest of the device is not tried");
    assert_eq!(why(&format!("{device}/reset")), Some("3 files beside it gave no answer"));
    let (_other, again) = place();
    let replayed = fixture.up(&again).unwrap();
    assert_eq!(replayed.devices(), 16);
    assert!(again.join(device).join("dev").exists() && !again.join(device).join("reset").exists());
}

#[test]
fn a_replayed_machine_breaks_and_is_restored_like_another() {
    let (_folder, root) = host("trn2.48xlarge", None);
    let (_other, again) = place();
    let fixture = capture(&root, false, &Limits::default()).unwrap();
    let machine = fixture.up(&again).unwrap();
    let whole = modes(&again);
    machine.lose(4).unwrap();
    assert!(!again.join("dev/neuron4").exists());
    machine.restore(4).unwrap();
    machine.set_health(4, &Health::unhealthy("hbm")).unwrap();
    machine.set_health(4, &Health::Healthy).unwrap();
    machine.strike(&FaultSpec::now(Fault::LinkDown { device: 4, other: 5 })).unwrap();
    machine.lift_all().unwrap();
    assert!(modes(&again) == whole);
    fixture.up(&again).unwrap();
    assert!(modes(&again) == whole, "the same fixture changes nothing");
    Machine::builder("inf2.xlarge").up(&again).unwrap();
    assert!(!again.join("dev/neuron1").exists(), "another machine replaces it");
    fixture.up(&again).unwrap();
    assert!(modes(&again) == whole);
}

#[test]
fn faults_find_the_files_of_a_driver_that_moved_them() {
    let (_folder, root) = host("trn1.2xlarge", None);
    let device = root.join("sys/devices/virtual/neuron_device/neuron0");
    fs::create_dir(device.join("state")).unwrap();
    fs::rename(device.join("reset"), device.join("state/reset")).unwrap();
    fs::write(root.join("sys/module/neuron/version"), "2.33.0.0\n").unwrap();
    let (_other, again) = place();
    let machine = capture(&root, false, &Limits::default()).unwrap().up(&again).unwrap();
    machine.strike(&FaultSpec::now(Fault::Reset { device: 0 })).unwrap();
    assert_eq!(sysfs(&again, 0, "state/reset"), "0\n");
    assert!(!again.join("sys/devices/virtual/neuron_device/neuron0/reset").exists());
}

#[rstest]
#[case("{}", "is none: missing field `version` at line 1 column 2; make one with `fake-neuron record`")]
#[case("", "is none: EOF while parsing a value at line 1 column 0; make one with `fake-neuron record`")]
fn what_is_no_fixture_is_refused(#[case] text: &str, #[case] message: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fixture.json");
    fs::write(&path, text).unwrap();
    assert_eq!(
        Fixture::read(&path).unwrap_err().to_string(),
        format!("fixture {} {message}", path.display())
    );
}

#[rstest]
#[case::version(r#""version": 2"#, "[]", "it is of version 2, and this program reads version 1")]
#[case::empty(r#""version": 1"#, "[]", "it has no device neuron0")]
#[case::leads_out(
    r#""version": 1"#,
    r#"[{"path": "sys/../../etc/passwd", "mode": "0644", "content": "x"}]"#,
    "\"sys/../../etc/passwd\" is not below a root's dev, sys, proc or opt"
)]
#[case::elsewhere(
    r#""version": 1"#,
    r#"[{"path": "etc/passwd", "mode": "0644", "content": "x"}]"#,
    "\"etc/passwd\" is not below a root's dev, sys, proc or opt"
)]
#[case::no_cores(
    r#""version": 1"#,
    r#"[{"path": "sys/devices/virtual/neuron_device/neuron0/dev", "mode": "0444", "content": "120:0\n"}]"#,
    "neuron0 has no core_count with a number in it"
)]
fn a_fixture_that_makes_no_machine_is_refused(
    #[case] version: &str,
    #[case] entries: &str,
    #[case] problem: &str,
) {
    let (folder, root) = place();
    let path = folder.path().join("fixture.json");
    let text = format!(
        r#"{{{version}, "instanceType": "trn2.48xlarge", "driverVersion": "", "identityKept": false, "entries": {entries}}}"#
    );
    fs::write(&path, text).unwrap();
    let refused = Fixture::read(&path).unwrap().up(&root).unwrap_err();
    assert_eq!(refused.to_string(), format!("the fixture of trn2.48xlarge makes no machine: {problem}"));
    assert!(!root.exists());
}

#[test]
fn a_host_without_devices_or_with_too_many_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = capture(folder.path(), false, &quick()).unwrap_err().to_string();
    assert_eq!(
        refused,
        format!(
            "no Neuron device under {}: there is no sys/devices/virtual/neuron_device with neuronN in it; is the driver loaded?",
            folder.path().display()
        )
    );
    let (_folder, root) = host("trn1.2xlarge", None);
    let few = Limits { files: 10, ..quick() };
    let refused = capture(&root, false, &few).unwrap_err().to_string();
    assert!(refused.starts_with("more than 10 files under "), "{refused}");
}
