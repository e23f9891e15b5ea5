//! `fake-neuron exec --reads` and `--from`: what a program opened of the machine is counted, and the machine may be a captured one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod running;

use std::fs;
use std::path::Path;

use fake_neuron::record::{Limits, capture};
use fake_neuron::{Machine, Reads};
use running::{NOBODY, as_nobody, exec, is_possible, is_root, open_to_all, printed, program, text};

/// Opens three files of the machine, one of them twice and one through a link, one by a relative path; and others.
const OPENS: &str = "cat /sys/module/neuron/version /sys/module/neuron/version /proc/self/comm >/dev/null
    cat /sys/class/neuron_device/neuron1/core_count >/dev/null
    cd /sys/devices/virtual/neuron_device/neuron0 && cat dev >/dev/null && cat ../neuron77/dev 2>/dev/null
    exec 3</dev/neuron2";

const OPENED: [(&str, u64); 4] = [
    ("dev/neuron2", 1),
    ("sys/devices/virtual/neuron_device/neuron0/dev", 1),
    ("sys/devices/virtual/neuron_device/neuron1/core_count", 1),
    ("sys/module/neuron/version", 2),
];

#[test]
fn what_is_opened_of_the_machine_is_counted() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reads.json");
    let path = file.to_str().unwrap();
    printed(&exec("trn1.32xlarge", &["--reads", path, "--", "sh", "-c", OPENS]).output().unwrap());
    assert_eq!(Reads::read(&file).unwrap().all().collect::<Vec<_>>(), OPENED);

    // Without root, too, and however the program ends; the earlier counts are replaced.
    let failing = format!("{OPENS}; exit 3");
    let arguments =
        ["exec", "--instance-type", "trn1.32xlarge", "--reads", path, "--", "sh", "-c", failing.as_str()];
    let Some(mut command) = as_nobody(&folder, &arguments) else { return };
    if is_root() {
        let nobody = NOBODY.parse().unwrap();
        std::os::unix::fs::chown(&file, Some(nobody), Some(nobody)).unwrap();
    }
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(3), ""));
    let reads = Reads::read(&file).unwrap();
    assert_eq!(reads.all().collect::<Vec<_>>(), OPENED);
    assert_eq!((reads.of("/sys/module/neuron/version"), reads.of("sys/module/neuron/refcnt")), (2, 0));
}

#[test]
fn what_the_tools_read_is_counted_too() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reads.json");
    let of = |command: &str| {
        let arguments = ["--reads", file.to_str().unwrap(), "--", "sh", "-c", command];
        printed(&exec("trn1.2xlarge", &arguments).output().unwrap());
        Reads::read(&file).unwrap()
    };
    for tool in ["neuron-ls", "neuron-monitor | head -1"] {
        let reads = of(tool);
        for path in [
            "sys/devices/virtual/dmi/id/product_name",
            "sys/devices/virtual/neuron_device/neuron0/core_count",
        ] {
            assert_ne!(reads.of(path), 0, "{tool}: {reads:?}");
        }
        let bookkeeping = reads.all().find(|(path, _)| path.contains("fake-neuron"));
        assert_eq!(bookkeeping, None, "{tool}");
    }
}

#[test]
fn a_captured_host_stands_at_the_real_paths() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    open_to_all(folder.path());
    let captured = Machine::builder("inf2.24xlarge").driver("2.21").counters(true);
    let captured = captured.up(&folder.path().join("host")).unwrap();
    let fixture = folder.path().join("fixture.json");
    capture(captured.root(), false, &Limits::default()).unwrap().write(&fixture).unwrap();

    let script = "cat /sys/devices/virtual/dmi/id/product_name /sys/module/neuron/version; ls -d /dev/neuron*; \
                  cat /sys/class/neuron_device/neuron5/connected_devices; neuron-ls | grep -c '0000:'";
    let run = |machine: &[&str]| {
        let mut command = program();
        command.arg("exec").args(machine).args(["--", "sh", "-c", script]);
        printed(&command.output().unwrap())
    };
    let said = run(&["--from", fixture.to_str().unwrap()]);
    let nodes: String = (0..6).map(|device| format!("/dev/neuron{device}\n")).collect();
    assert_eq!(said, format!("inf2.24xlarge\n2.21.37.0\n{nodes}4\n6\n"));
    assert_eq!(said, run(&["--instance-type", "inf2.24xlarge", "--driver", "2.21"]));
}

#[test]
fn what_cannot_be_written_or_replayed_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let output = program().arg("exec").args(arguments).args(["--", "echo", "ran"]).output().unwrap();
        assert_eq!(text(&output.stdout), "");
        (output.status.code(), text(&output.stderr))
    };
    let missing = folder.path().join("missing/reads.json");
    let missing = missing.to_str().unwrap();
    assert_eq!(
        refused(&["--instance-type", "inf2.xlarge", "--reads", missing]),
        (
            Some(125),
            format!("fake-neuron: {missing} cannot be written: No such file or directory (os error 2)\n")
        )
    );
    let (code, said) = refused(&["--instance-type", "inf2.xlarge", "--no-ioctl", "--reads", missing]);
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("'--no-ioctl' cannot be used with '--reads <FILE>'"), "{said}");
    let (code, said) = refused(&["--from", missing]);
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains(missing), "{said}");
    let empty = folder.path().join("empty.json");
    fs::write(
        &empty,
        r#"{"version": 1, "instanceType": "x", "driverVersion": "", "identityKept": false, "entries": []}"#,
    )
    .unwrap();
    if is_possible() {
        let (code, said) = refused(&["--from", Path::new(&empty).to_str().unwrap()]);
        assert_eq!(code, Some(125), "{said}");
        assert!(said.contains("it has no device neuron0"), "{said}");
    }
}
