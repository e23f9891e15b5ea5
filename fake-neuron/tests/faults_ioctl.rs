//! Under a fault sysfs, the ioctls and neuron-ls say the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod program;

use std::path::Path;

use common::{spec, sysfs};
use fake_neuron::Machine;
use fake_neuron::fault::Fault;
use fake_neuron::host::Host;
use fake_neuron::ioctl::discover;
use program::{Bench, Linked, program};
use rstest::rstest;

/// What each says each device is linked to, by device id.
fn links_by_each_source(bench: &Bench, program: &Path) -> [Vec<Vec<u8>>; 3] {
    let (root, count) = (bench.machine.root(), bench.machine.devices());
    let ids = |text: &str| text.split([',', ' ']).filter_map(|id| id.trim().parse().ok()).collect();
    let by_sysfs = (0..count).map(|device| ids(&sysfs(root, device, "connected_devices"))).collect();
    let told = bench.run(program, &["facts", &count.to_string()]);
    let by_ioctl = (0..count).map(|device| {
        let start = format!("neuron{device} arch ");
        let line = told.lines().find(|line| line.starts_with(&start)).unwrap();
        ids(line.split_once("links").unwrap().1)
    });
    let host = Host::read(root, |_| None).unwrap();
    [by_sysfs, by_ioctl.collect(), host.devices.into_iter().map(|device| device.connected).collect()]
}

#[rstest]
#[case::a_link(&[Fault::LinkDown { device: 0, other: 1 }], &[12, 3, 4])]
#[case::named_from_its_other_end(&[Fault::LinkDown { device: 12, other: 0 }], &[3, 4, 1])]
#[case::two_links(&[Fault::LinkDown { device: 0, other: 1 }, Fault::LinkDown { device: 4, other: 0 }], &[12, 3])]
#[case::another_fault(&[Fault::CoreHeld { core: 0, pid: 4711 }, Fault::WrongLnc { lnc: 1 }], &[12, 3, 4, 1])]
fn every_source_shows_the_links_that_are_left(#[case] faults: &[Fault], #[case] left: &[u8]) {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn1.32xlarge"));
    let whole = links_by_each_source(&bench, &program);
    let ids: Vec<u32> = faults.iter().map(|fault| bench.strike(fault.clone())).collect();
    let [by_sysfs, by_ioctl, by_ls] = links_by_each_source(&bench, &program);
    let machine = Machine::builder("trn1.32xlarge").blueprint().unwrap();
    let as_values = (0..16).map(|device| discover(&machine, device, faults).unwrap().links);
    assert_eq!(as_values.collect::<Vec<_>>(), by_sysfs);
    assert_eq!(by_sysfs[0], left);
    assert_eq!(by_ioctl, by_sysfs);
    assert_eq!(by_ls, by_sysfs);
    ids.into_iter().for_each(|id| bench.machine.lift(id).unwrap());
    assert_eq!(links_by_each_source(&bench, &program), whole);
}

#[test]
fn a_broken_inf1_device_is_lost_to_all_of_them() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("inf1.6xlarge"));
    let root = bench.machine.root();
    bench.strike(Fault::Unhealthy { device: 2, components: vec!["hbm".to_owned()] });
    assert!(!root.join("sys/class/neuron_device/neuron2").exists());
    let broken = Fault::Unhealthy { device: 2, components: vec!["hbm".to_owned()] };
    let blueprint = Machine::builder("inf1.6xlarge").blueprint().unwrap();
    let as_value = |device, fault: Fault| discover(&blueprint, device, &[fault]).map(|found| found.host_id);
    assert_eq!((as_value(2, broken.clone()), as_value(1, broken)), (None, Some(1)));
    assert_eq!(as_value(1, Fault::DeviceLost { device: 1 }), None);
    assert_eq!(as_value(1, Fault::DriverUnloaded {}), None);
    let listed: Vec<u8> =
        Host::read(root, |_| None).unwrap().devices.iter().map(|device| device.id).collect();
    assert_eq!(listed, [0, 1, 3]);
    // As in a container, whose nodes stay.
    std::fs::write(root.join("dev/neuron2"), "").unwrap();
    assert_eq!(bench.run(&program, &["facts", "4"]).lines().last(), Some("neuron2 open: ENXIO"));
    std::fs::remove_file(root.join("dev/neuron2")).unwrap();
}
