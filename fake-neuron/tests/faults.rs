//! Every fault on a machine: what a reader sees, and that lifting it leaves the machine as it was.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod breaking;
mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

use breaking::{now, torus};
use common::{modes, place, read, sysfs};
use fake_neuron::fault::{Fault, HardwareError, KERNEL_LOG};
use fake_neuron::{Health, Machine};
use neuron_core::catalog::Generation;
use rstest::rstest;

fn health_status(file: &str, value: u32) -> Fault {
    Fault::HealthStatus { device: 3, file: file.to_owned(), value }
}

fn ecc(counter: &str, count: u32) -> Fault {
    Fault::Ecc { device: 3, counter: counter.to_owned(), count }
}

#[rstest]
#[case(Fault::DeviceLost { device: 3 })]
#[case(ecc("mem_ecc_uncorrected", 7))]
#[case(Fault::Unhealthy { device: 3, components: vec!["hbm".to_owned(), "sram".to_owned()] })]
#[case(Fault::HungRead { path: Some("sys/module/neuron/version".to_owned()), device: None })]
#[case(Fault::HungRead { path: None, device: Some(3) })]
#[case(Fault::Reset { device: 3 })]
#[case(Fault::DriverUnloaded {})]
#[case(Fault::LinkDown { device: 3, other: 7 })]
#[case(Fault::WrongLnc { lnc: 2 })]
#[case(Fault::CoreHeld { core: 31, pid: 4711 })]
fn a_fault_is_in_force_until_it_is_lifted_and_leaves_nothing(#[case] fault: Fault) {
    let (_folder, machine) = torus();
    let (root, whole) = (machine.root(), modes(machine.root()));
    let id = machine.strike(&now(fault.clone())).unwrap().unwrap();
    let faults = machine.faults().unwrap();
    assert_eq!(faults.in_force().collect::<Vec<_>>(), [&fault]);
    let is_state_only = matches!(fault, Fault::CoreHeld { .. });
    assert_eq!(modes(root) == whole, is_state_only, "{fault}");
    // Another program lifts it.
    Machine::open(root).unwrap().lift(id).unwrap();
    assert!(modes(root) == whole, "{fault}");
    assert_eq!(
        machine.lift(id).unwrap_err().to_string(),
        format!("there is no fault {id}: `fake-neuron fault list` shows them")
    );
    machine.strike(&now(fault.clone())).unwrap();
    machine.down().unwrap();
    assert!(!root_is_there(&_folder), "{fault}: down leaves nothing, whatever was in force");
}

fn root_is_there(folder: &tempfile::TempDir) -> bool {
    fs::read_dir(folder.path()).unwrap().next().is_some()
}

#[test]
fn what_was_there_before_is_what_comes_back() {
    let (_folder, machine) = torus();
    let root = machine.root();
    let counter = "sys/devices/virtual/neuron_device/neuron3/stats/hardware/mem_ecc_uncorrected";
    fs::write(root.join(counter), "41\n").unwrap();
    let number = fs::metadata(root.join("dev/neuron3")).unwrap().ino();
    let id = machine.strike(&now(ecc("mem_ecc_uncorrected", 42))).unwrap().unwrap();
    assert_eq!(read(root, counter), "42\n");
    machine.lift(id).unwrap();
    assert_eq!(read(root, counter), "41\n");
    let id = machine.strike(&now(Fault::DeviceLost { device: 3 })).unwrap().unwrap();
    assert!(!root.join("dev/neuron3").exists() && !root.join("sys/class/neuron_device/neuron3").is_symlink());
    machine.lift(id).unwrap();
    assert_eq!(read(root, counter), "41\n");
    assert_eq!(
        fs::metadata(root.join("dev/neuron3")).unwrap().ino(),
        number,
        "the same node, not one like it"
    );
}

#[test]
fn each_fault_shows_where_a_reader_looks() {
    let (_folder, machine) = torus();
    let root = machine.root();
    let strike = |fault: Fault| machine.strike(&now(fault)).unwrap();
    strike(Fault::Reset { device: 1 });
    assert_eq!(sysfs(root, 1, "reset"), "0\n");
    strike(Fault::LinkDown { device: 4, other: 5 });
    assert_eq!(sysfs(root, 4, "connected_devices"), "0, 7, 8\n");
    assert_eq!(sysfs(root, 5, "connected_devices"), "1, 4, 9, 6\n".replace("4, ", ""));
    strike(Fault::WrongLnc { lnc: 9 });
    assert_eq!(read(root, "opt/aws/neuron/logical_nc_config"), "NEURON_LOGICAL_NC_CONFIG=9");
    strike(Fault::Unhealthy { device: 6, components: vec!["sram".to_owned()] });
    assert_eq!(sysfs(root, 6, "stats/hardware/sram_ecc_uncorrected"), "1\n");
    strike(Fault::CoreHeld { core: 5, pid: 77 });
    let faults = machine.faults().unwrap();
    assert_eq!((faults.holder_of(5), faults.holder_of(4)), (Some(77), None));
    assert!(
        faults.is_in_reset(1)
            && !faults.is_in_reset(2)
            && !faults.is_lost(1, Generation::Trn2)
            && !faults.driver_is_unloaded()
    );
    assert_eq!(machine.lift_all().unwrap(), 5);
    assert_eq!(sysfs(root, 1, "reset"), "1\n");
    assert!(!root.join("opt").exists(), "the setting's folders were the fault's");
}

#[test]
fn newer_devices_name_what_is_broken_and_old_ones_are_lost() {
    let unhealthy = |instance_type: &str, component: &str| {
        let (folder, root) = place();
        let machine = Machine::builder(instance_type).up(&root).unwrap();
        let components = vec![component.to_owned()];
        machine.strike(&now(Fault::Unhealthy { device: 0, components })).unwrap();
        (folder, root)
    };
    let (_folder, root) = unhealthy("trn2.3xlarge", "link_efa");
    assert_eq!(sysfs(&root, 0, "stats/hardware/health_status/unhealthy_components"), "link_efa\n");
    let (_folder, root) = unhealthy("inf1.xlarge", "hbm");
    assert!(!root.join("dev/neuron0").exists());
}

#[test]
fn an_unloaded_driver_leaves_no_trace_but_the_type() {
    let (_folder, machine) = torus();
    let root = machine.root();
    let id = machine.strike(&now(Fault::DriverUnloaded {})).unwrap().unwrap();
    for gone in
        ["sys/module/neuron", "sys/class/neuron_device", "sys/devices/virtual/neuron_device", "dev/neuron0"]
    {
        assert!(root.join(gone).symlink_metadata().is_err(), "{gone}");
    }
    assert_eq!(read(root, "proc/devices"), "Character devices:\n\nBlock devices:\n");
    assert_eq!(read(root, "proc/modules"), "");
    assert_eq!(read(root, "sys/class/dmi/id/product_name"), "trn1.32xlarge\n");
    assert!(machine.faults().unwrap().driver_is_unloaded());
    machine.lift(id).unwrap();
    assert_eq!(read(root, "sys/module/neuron/version"), "2.30.2.0\n");
}

#[test]
fn a_hung_read_is_answered_when_the_fault_is_lifted() {
    let (_folder, machine) = torus();
    let path = machine.root().join("sys/class/neuron_device/neuron2/core_count");
    let hung = Fault::HungRead {
        path: Some("/sys/class/neuron_device/neuron2/core_count".to_owned()),
        device: None,
    };
    let id = machine.strike(&now(hung)).unwrap().unwrap();
    assert!(path.metadata().unwrap().file_type().is_fifo());
    let (sender, answer) = std::sync::mpsc::sync_channel(1);
    let reader = std::thread::spawn(move || {
        sender.send(()).unwrap();
        let mut text = String::new();
        File::open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    answer.recv().unwrap();
    assert!(!reader.is_finished());
    machine.lift(id).unwrap();
    assert_eq!(reader.join().unwrap(), "2");
}

#[test]
fn a_hung_device_hangs_in_the_drivers_files_only() {
    let (_folder, machine) = torus();
    machine.strike(&now(Fault::HungRead { path: None, device: Some(2) })).unwrap();
    let folder = machine.root().join("sys/devices/virtual/neuron_device/neuron2");
    let is_fifo = |path: &str| folder.join(path).metadata().unwrap().file_type().is_fifo();
    assert!(is_fifo("core_count") && is_fifo("neuron_core1/stats/status/success/total"));
    assert!(!is_fifo("dev") && !is_fifo("uevent") && !is_fifo("power/control"));
    assert!(folder.join("subsystem").is_symlink());
    assert_eq!(sysfs(machine.root(), 1, "core_count"), "2");
}

/// A record's number, its microseconds since boot and the time at the start of its text.
fn parts_of(record: &str) -> (usize, u64, &str) {
    let (head, text) = record.split_once(';').unwrap();
    let fields: Vec<&str> = head.split(',').collect();
    (fields[1].parse().unwrap(), fields[2].parse().unwrap(), text.split(' ').next().unwrap())
}

#[rstest]
#[case(HardwareError::SramUncorrectableError, "SRAM_UNCORRECTABLE_ERROR")]
#[case(HardwareError::NcUncorrectableError, "NC_UNCORRECTABLE_ERROR")]
#[case(HardwareError::HbmUncorrectableError, "HBM_UNCORRECTABLE_ERROR")]
#[case(HardwareError::DmaError, "DMA_ERROR")]
#[case(HardwareError::HangOnCollectives, "HANG_ON_COLLECTIVES")]
fn a_kernel_error_is_a_record_that_the_problem_detector_finds(
    #[case] kind: HardwareError,
    #[case] word: &str,
) {
    let (folder, root) = place();
    let machine = Machine::builder("trn1.2xlarge").instance_id("i-0abc").up(&root).unwrap();
    let error = now(Fault::KernelError { device: 0, kind });
    assert_eq!(machine.strike(&error).unwrap(), None, "there is nothing to lift");
    machine.strike(&error).unwrap();
    let log = read(&root, KERNEL_LOG);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2);
    let serial = sysfs(&root, 0, "info/serial_number").trim_end().to_owned();
    for (number, line) in (1..).zip(&lines) {
        let (head, message) = line.split_once(';').unwrap();
        assert!(head.starts_with(&format!("3,{number},")) && head.ends_with(",-"), "{head}");
        // Both detectors' patterns: AWS' own, and that of EKS' agent, which wants blanks around the word.
        assert!(message.contains(&format!(" NEURON_HW_ERR={word} ")), "{message}");
        assert!(message.contains("instance-id=i-0abc ") && message.contains(" nd-id=0 "), "{message}");
        assert!(message.contains(&format!("serial-num={serial} ")), "{message}");
    }
    assert!(machine.faults().unwrap().faults.is_empty());
    let blueprint = Machine::builder("trn1.2xlarge").instance_id("i-0abc").blueprint().unwrap();
    let (number, micros, text) = parts_of(lines[1]);
    let as_value =
        blueprint.kernel_record(0, kind, number, Duration::from_micros(micros), text.parse().unwrap());
    assert_eq!(as_value, lines[1]);
    machine.down().unwrap();
    assert!(!root_is_there(&folder), "the log goes with the machine");
}

#[rstest]
#[case(Fault::DeviceLost { device: 16 }, "trn1.32xlarge has no device 16: its devices are 0 to 15")]
#[case(Fault::Reset { device: 200 }, "trn1.32xlarge has no device 200: its devices are 0 to 15")]
#[case(Fault::KernelError { device: 16, kind: HardwareError::DmaError }, "trn1.32xlarge has no device 16: its devices are 0 to 15")]
#[case(
    ecc("mem_ecc", 1),
    "device 3 of trn1.32xlarge has no counter mem_ecc: name one of sram_ecc_uncorrected, mem_ecc_uncorrected, mem_ecc_repairable_uncorrected, sram_ecc_corrected, mem_ecc_corrected"
)]
#[case(
    health_status("hw_error_event", 1),
    "device 3 of trn1.32xlarge has no counter hw_error_event: its driver shows none"
)]
#[case(
    ecc("mem_ecc_uncorrected", 65536),
    "mem_ecc_uncorrected cannot show 65536: it has 16 bits, so give 0 to 65535"
)]
#[case(
    Fault::Unhealthy { device: 0, components: vec!["link_efa".to_owned()] },
    "device 0 of trn1.32xlarge cannot show component \"link_efa\": name one of hbm, sram"
)]
#[case(
    Fault::Unhealthy { device: 0, components: vec![] },
    "device 0 of trn1.32xlarge cannot be unhealthy without a component: name one of hbm, sram"
)]
#[case(
    Fault::LinkDown { device: 0, other: 2 },
    "the driver shows no link between devices 0 and 2 of trn1.32xlarge: device 0 is linked to 12, 3, 4, 1"
)]
#[case(Fault::CoreHeld { core: 32, pid: 1 }, "trn1.32xlarge has no core 32: its physical cores are 0 to 31")]
#[case(
    Fault::HungRead { path: None, device: None },
    "hung-read needs a path or a device, and not both: give one"
)]
#[case(
    Fault::HungRead { path: Some("sys/module/neuron".to_owned()), device: None },
    "\"sys/module/neuron\" is no file of the machine under ROOT: give one such as sys/module/neuron/version"
)]
#[case(
    Fault::HungRead { path: Some("../outside".to_owned()), device: None },
    "\"../outside\" is no file of the machine under ROOT: give one such as sys/module/neuron/version"
)]
#[case(
    Fault::HungRead { path: Some(".fake-neuron.json".to_owned()), device: None },
    "\".fake-neuron.json\" is no file of the machine under ROOT: give one such as sys/module/neuron/version"
)]
fn a_fault_that_the_machine_cannot_have_is_refused(#[case] fault: Fault, #[case] message: &str) {
    let (_folder, machine) = torus();
    let before = modes(machine.root());
    let refused = machine.strike(&now(fault)).unwrap_err();
    assert_eq!(refused.to_string().replace(machine.root().to_str().unwrap(), "ROOT"), message);
    assert!(refused.is_misuse());
    assert!(modes(machine.root()) == before);
}

#[test]
fn the_numbers_of_health_status_are_what_was_asked_for() {
    let (_folder, root) = place();
    let machine = Machine::builder("trn2.48xlarge").up(&root).unwrap();
    for file in ["hw_error_event", "healthcheck_heartbeat"] {
        let shown = || sysfs(&root, 3, &format!("stats/hardware/health_status/{file}"));
        let id = machine.strike(&now(health_status(file, 70_000))).unwrap().unwrap();
        assert_eq!(shown(), "70000\n");
        machine.lift(id).unwrap();
        assert_eq!(shown(), "0\n");
    }
    let refused = machine.strike(&now(health_status("unhealthy_components", 1))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "device 3 of trn2.48xlarge has no counter unhealthy_components: name one of hw_error_event, healthcheck_heartbeat"
    );
}

#[test]
fn an_inf1_device_has_no_counters_to_break() {
    let (_folder, root) = place();
    let machine = Machine::builder("inf1.6xlarge").up(&root).unwrap();
    let refused = machine.strike(&now(ecc("mem_ecc_uncorrected", 1))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "device 3 of inf1.6xlarge has no counter mem_ecc_uncorrected: its driver shows none"
    );
}

#[rstest]
#[case::the_same_core(Fault::CoreHeld { core: 1, pid: 7 }, Fault::CoreHeld { core: 1, pid: 8 }, "core 1 is held by one process")]
#[case::the_kernels_own(
    Fault::HungRead { path: None, device: Some(3) },
    Fault::HungRead { path: Some("sys/class/neuron_device/neuron3/uevent".to_owned()), device: None },
    "of a device that hangs, sys/class/neuron_device/neuron3/uevent is the kernel's own and answers"
)]
fn a_fault_that_says_the_opposite_is_refused(
    #[case] first: Fault,
    #[case] second: Fault,
    #[case] because: &str,
) {
    for (first, second) in [(first.clone(), second.clone()), (second, first)] {
        let (_folder, machine) = torus();
        machine.strike(&now(first.clone())).unwrap();
        let before = modes(machine.root());
        let refused = machine.strike(&now(second.clone())).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "{second} contradicts fault 1, {first}: {because}; lift that one first with `fake-neuron fault clear 1`"
            )
        );
        assert!(refused.is_misuse() && modes(machine.root()) == before);
        assert_eq!(machine.faults().unwrap().faults.len(), 1);
        machine.lift(1).unwrap();
        assert_eq!(machine.strike(&now(second)).unwrap(), Some(2), "ids are never used again");
    }
}

#[test]
fn a_fault_never_leads_out_of_the_root() {
    let (folder, machine) = torus();
    let outside = folder.path().canonicalize().unwrap().join("outside");
    fs::rename(machine.root().join("sys"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, machine.root().join("sys")).unwrap();
    let before = modes(&outside);
    let message = format!(
        "{}/sys is not a folder: fake-neuron does not follow it out of its root; remove it",
        machine.root().display()
    );
    for fault in [Fault::Reset { device: 0 }, Fault::DeviceLost { device: 0 }, Fault::DriverUnloaded {}] {
        assert_eq!(machine.strike(&now(fault)).unwrap_err().to_string(), message);
    }
    let hung = Fault::HungRead { path: Some("sys/module/neuron/version".to_owned()), device: None };
    assert!(machine.strike(&now(hung)).unwrap_err().to_string().contains("is no file of the machine"));
    assert!(modes(&outside) == before);
    assert!(machine.faults().unwrap().faults.is_empty());
}

#[test]
fn a_machine_made_anew_has_no_faults_and_the_same_one_keeps_them() {
    let (_folder, root) = place();
    let machine = Machine::builder("trn2.3xlarge").up(&root).unwrap();
    machine.strike(&now(Fault::WrongLnc { lnc: 1 })).unwrap();
    machine.set_health(0, &Health::unhealthy("hbm")).unwrap();
    Machine::builder("trn2.3xlarge").up(&root).unwrap();
    assert_eq!(Machine::open(&root).unwrap().faults().unwrap().faults.len(), 1);
    let other = Machine::builder("trn2.3xlarge").driver("2.28").up(&root).unwrap();
    assert!(other.faults().unwrap().faults.is_empty());
    assert!(!root.join("opt").exists());
}
