//! Faults that touch the same files: what a reader sees of them together, whichever struck first and whichever is lifted first.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use common::{modes, place, sysfs};
use fake_neuron::Machine;
use fake_neuron::fault::{Fault, FaultSpec};
use proptest::prelude::*;
use rstest::rstest;

const NEURON3: &str = "sys/devices/virtual/neuron_device/neuron3";

fn torus() -> (tempfile::TempDir, Machine) {
    let (folder, root) = place();
    let machine = Machine::builder("trn1.32xlarge").up(&root).unwrap();
    (folder, machine)
}

fn strike(machine: &Machine, fault: Fault) -> u32 {
    machine.strike(&FaultSpec::now(fault)).unwrap().unwrap()
}

fn ecc(counter: &str, count: u32) -> Fault {
    Fault::Ecc { device: 3, counter: counter.to_owned(), count }
}

fn unhealthy(components: &[&str]) -> Fault {
    Fault::Unhealthy { device: 3, components: components.iter().map(|name| (*name).to_owned()).collect() }
}

fn hung(path: &str) -> Fault {
    Fault::HungRead { path: Some(path.to_owned()), device: None }
}

fn hung_device() -> Fault {
    Fault::HungRead { path: None, device: Some(3) }
}

fn is_hung(root: &Path, path: &str) -> bool {
    root.join(NEURON3).join(path).metadata().unwrap().file_type().is_fifo()
}

#[test]
fn two_broken_links_of_a_device_are_both_missing() {
    let (_folder, machine) = torus();
    let root = machine.root();
    let links = || sysfs(root, 7, "connected_devices");
    assert_eq!(links(), "3, 6, 11, 4\n");
    let first = strike(&machine, Fault::LinkDown { device: 3, other: 7 });
    let second = strike(&machine, Fault::LinkDown { device: 7, other: 4 });
    assert_eq!(links(), "6, 11\n");
    machine.lift(first).unwrap();
    assert_eq!(links(), "3, 6, 11\n");
    machine.lift(second).unwrap();
    assert_eq!(links(), "3, 6, 11, 4\n");
}

#[test]
fn of_two_numbers_the_later_is_shown_until_it_is_lifted() {
    let (_folder, machine) = torus();
    let root = machine.root();
    let count = || sysfs(root, 3, "stats/hardware/mem_ecc_uncorrected");
    fs::write(root.join(NEURON3).join("stats/hardware/mem_ecc_uncorrected"), "41\n").unwrap();
    let first = strike(&machine, ecc("mem_ecc_uncorrected", 7));
    let second = strike(&machine, ecc("mem_ecc_uncorrected", 9));
    assert_eq!(count(), "9\n");
    machine.lift(second).unwrap();
    assert_eq!(count(), "7\n");
    strike(&machine, unhealthy(&["hbm"]));
    assert_eq!(
        (count(), sysfs(root, 3, "stats/hardware/sram_ecc_uncorrected")),
        ("1\n".to_owned(), "0\n".to_owned())
    );
    machine.lift(first).unwrap();
    assert_eq!(count(), "1\n");
    machine.lift_all().unwrap();
    assert_eq!(count(), "41\n");
}

#[test]
fn all_components_that_faults_break_are_named_each_once() {
    let (_folder, root) = place();
    let machine = Machine::builder("trn2.48xlarge").up(&root).unwrap();
    let named = || sysfs(&root, 3, "stats/hardware/health_status/unhealthy_components");
    let first = strike(&machine, unhealthy(&["hbm", "hbm"]));
    assert_eq!(named(), "hbm\n");
    strike(&machine, unhealthy(&["link_efa", "hbm"]));
    assert_eq!(named(), "hbm,link_efa\n");
    machine.lift(first).unwrap();
    assert_eq!(named(), "link_efa,hbm\n");
}

#[rstest]
#[case::counted_first(true)]
#[case::hung_first(false)]
fn a_file_that_hangs_does_so_whatever_it_would_say(#[case] counted_first: bool) {
    let (_folder, machine) = torus();
    let path = "stats/hardware/mem_ecc_uncorrected";
    let mut faults = [ecc("mem_ecc_uncorrected", 7), hung_device()];
    if !counted_first {
        faults.reverse();
    }
    let ids = faults.map(|fault| strike(&machine, fault));
    assert!(is_hung(machine.root(), path));
    let [_, hangs] = if counted_first { ids } else { [ids[1], ids[0]] };
    let file = machine.root().join(NEURON3).join(path);
    let (sender, begun) = std::sync::mpsc::sync_channel(1);
    let reader = std::thread::spawn(move || {
        sender.send(()).unwrap();
        let mut text = String::new();
        File::open(file).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    begun.recv().unwrap();
    machine.lift(hangs).unwrap();
    assert_eq!(reader.join().unwrap(), "7\n", "who waited is told what another fault says");
    assert_eq!(sysfs(machine.root(), 3, path), "7\n");
}

#[test]
fn a_lost_device_stays_lost_whatever_else_of_it_is_mended() {
    let (_folder, machine) = torus();
    let root = machine.root();
    let resets = strike(&machine, Fault::Reset { device: 3 });
    let lost = strike(&machine, Fault::DeviceLost { device: 3 });
    let hangs = strike(&machine, hung(&format!("{NEURON3}/core_count")));
    let unloaded = strike(&machine, Fault::DriverUnloaded {});
    machine.lift(resets).unwrap();
    assert!(!root.join("sys/devices/virtual/neuron_device").exists());
    machine.lift(unloaded).unwrap();
    assert!(!root.join(NEURON3).exists() && root.join("dev/neuron2").exists());
    machine.lift(lost).unwrap();
    assert_eq!(sysfs(root, 3, "reset"), "1\n");
    assert!(is_hung(root, "core_count"));
    machine.lift(hangs).unwrap();
    assert_eq!(sysfs(root, 3, "core_count"), "2");
}

#[test]
fn what_is_missing_of_a_device_that_nobody_fakes_stays_missing() {
    let (_folder, machine) = torus();
    machine.lose(3).unwrap();
    let without = modes(machine.root());
    let id = strike(&machine, Fault::Reset { device: 3 });
    assert!(modes(machine.root()) == without);
    machine.lift(id).unwrap();
    assert!(modes(machine.root()) == without);
}

/// When a strike was killed.
enum Interrupted {
    AtOnce,
    Halfway,
    AtTheEnd,
}

#[rstest]
#[case::before_it_began(Interrupted::AtOnce)]
#[case::when_the_device_was_gone(Interrupted::Halfway)]
#[case::when_all_was_done(Interrupted::AtTheEnd)]
fn a_strike_that_is_interrupted_is_undone_by_the_next(#[case] when: Interrupted) {
    let (_folder, machine) = torus();
    let (root, whole) = (machine.root(), modes(machine.root()));
    let record = root.join(".fake-neuron/faults.json");
    let noted = || serde_json::from_str::<serde_json::Value>(&fs::read_to_string(&record).unwrap()).unwrap();
    strike(&machine, ecc("mem_ecc_uncorrected", 7));
    let (broken, mut begun) = (modes(root), noted());
    let lost = strike(&machine, Fault::DeviceLost { device: 3 });
    let mut changed = noted()["changed"].as_array().unwrap().clone();
    changed.extend(begun["changed"].as_array().unwrap().clone());
    match when {
        Interrupted::AtOnce => machine.lift(lost).unwrap(),
        Interrupted::Halfway => {
            // What the device showed is not put back yet in what was taken.
            let counter = format!("{NEURON3}/stats/hardware/mem_ecc_uncorrected");
            let taken = |path: &str| root.join(".fake-neuron/taken").join(path.replace('/', "-"));
            let (shown, healthy) = (taken(NEURON3).join(&counter), taken(&counter).join(&counter));
            fs::create_dir_all(healthy.parent().unwrap()).unwrap();
            fs::rename(&shown, healthy).unwrap();
            fs::write(&shown, "7\n").unwrap();
        }
        Interrupted::AtTheEnd => {}
    }
    // What is noted while the files are being changed.
    begun["changed"] = changed.into();
    begun["unfinished"] = true.into();
    fs::write(&record, begun.to_string()).unwrap();
    let resets = strike(&machine, Fault::Reset { device: 5 });
    machine.lift(resets).unwrap();
    assert!(modes(root) == broken, "the first fault is in force and the second is not");
    let lost = strike(&machine, Fault::DeviceLost { device: 3 });
    assert!(!root.join(NEURON3).exists());
    machine.lift(lost).unwrap();
    assert!(modes(root) == broken);
    machine.lift_all().unwrap();
    assert!(modes(root) == whole);
    assert!(!root.join(".fake-neuron/taken").read_dir().unwrap().any(|_| true));
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let path = |file: &str| format!("{NEURON3}/{file}");
    prop::sample::select(vec![
        Fault::DeviceLost { device: 3 },
        Fault::DeviceLost { device: 7 },
        ecc("mem_ecc_uncorrected", 7),
        ecc("mem_ecc_uncorrected", 9),
        ecc("sram_ecc_uncorrected", 2),
        unhealthy(&["hbm"]),
        unhealthy(&["sram", "hbm"]),
        hung_device(),
        hung(&path("stats/hardware/mem_ecc_uncorrected")),
        hung(&path("connected_devices")),
        hung("sys/module/neuron/version"),
        Fault::Reset { device: 3 },
        Fault::DriverUnloaded {},
        Fault::LinkDown { device: 3, other: 7 },
        Fault::LinkDown { device: 7, other: 4 },
        Fault::WrongLnc { lnc: 2 },
        Fault::WrongLnc { lnc: 1 },
        Fault::CoreHeld { core: 6, pid: 7 },
    ])
}

proptest! {
    // Few: each makes some five machines on the disk.
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever strikes and is lifted in which order: the files are those of a machine on which only what is in force has struck, and
    /// at last the healthy ones.
    #[test]
    fn files_say_what_is_in_force_and_nothing_else(steps in prop::collection::vec((any_fault(), any::<Option<prop::sample::Index>>()), 1..8)) {
        let (_folder, machine) = torus();
        let whole = modes(machine.root());
        let mut in_force: Vec<(u32, Fault)> = Vec::new();
        for (fault, lifted) in steps {
            in_force.push((strike(&machine, fault.clone()), fault));
            if let Some(lifted) = lifted {
                let (id, _) = in_force.remove(lifted.index(in_force.len()));
                machine.lift(id).unwrap();
            }
            let (_other, anew) = torus_like(&machine);
            for (_, fault) in &in_force {
                strike(&anew, fault.clone());
            }
            prop_assert_eq!(differences(&machine, &anew), Vec::<String>::new(), "{:?}", in_force);
        }
        machine.lift_all().unwrap();
        prop_assert!(modes(machine.root()) == whole);
    }
}

/// Another machine with the same instance id.
fn torus_like(machine: &Machine) -> (tempfile::TempDir, Machine) {
    let (folder, root) = place();
    let like = Machine::builder("trn1.32xlarge").instance_id(machine.instance_id()).up(&root).unwrap();
    (folder, like)
}

fn differences(machine: &Machine, other: &Machine) -> Vec<String> {
    let (mut found, mut expected) = (modes(machine.root()), modes(other.root()));
    // It says where the machine stands.
    found.remove(".fake-neuron.json");
    expected.remove(".fake-neuron.json");
    common::differences(&found, &expected)
}
