//! The bytes that discovery reads, for every type and LNC of the catalog.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{listing, place, read, spec, sysfs, up};
use fake_neuron::{DRIVER_MAJOR, Health, MachineSpec};
use neuron_core::catalog::{Catalog, Generation};
use neuron_core::driver::Drivers;
use rstest::rstest;

#[rstest]
#[case("inf1.6xlarge", None)]
#[case("inf2.24xlarge", None)]
#[case("trn1.2xlarge", None)]
#[case("trn2.48xlarge", Some(1))]
fn the_tree_is_the_drivers(#[case] instance_type: &str, #[case] lnc: Option<u8>) {
    let (_folder, root) = place();
    up(&MachineSpec { lnc, ..spec(instance_type) }, &root).unwrap();
    insta::assert_snapshot!(format!("tree_{instance_type}"), compact(&listing(&root)));
}

#[test]
fn every_type_at_every_lnc_is_as_the_catalog_says() {
    for model in Catalog::embedded().types() {
        let lncs: &[Option<u8>] = match model.generation {
            Generation::Trn2 | Generation::Trn3 => &[None, Some(1), Some(2)],
            _ => &[None, Some(1)],
        };
        let (_folder, root) = place();
        for lnc in lncs {
            up(&MachineSpec { lnc: *lnc, ..spec(&model.name) }, &root).unwrap();
            let nodes: BTreeSet<String> = names(&root.join("dev"));
            let devices: BTreeSet<String> = (0..model.devices).map(|id| format!("neuron{id}")).collect();
            assert_eq!(nodes, devices, "{}", model.name);
            let mut class = names(&root.join("sys/class/neuron_device"));
            class.retain(|name| name.starts_with("neuron"));
            assert_eq!(class, devices, "{}", model.name);
            assert_eq!(read(&root, "sys/class/dmi/id/product_name"), format!("{}\n", model.name));
            for id in 0..model.devices {
                let folder = root.join(format!("sys/class/neuron_device/neuron{id}"));
                let cores = names(&folder).into_iter().filter(|name| name.starts_with("neuron_core")).count();
                assert_eq!(cores, usize::from(model.cores_per_device), "physical, whatever the LNC");
                assert_eq!(sysfs(&root, id, "core_count"), model.cores_per_device.to_string());
                let shown: BTreeSet<u8> = sysfs(&root, id, "connected_devices")
                    .split(", ")
                    .filter_map(|link| link.trim_end().parse().ok())
                    .collect();
                let links: BTreeSet<u8> = model.driver_links[usize::from(id)].iter().copied().collect();
                assert_eq!(shown, links, "{} device {id}", model.name);
            }
            let setting = fs::read_to_string(root.join("opt/aws/neuron/logical_nc_config")).ok();
            assert_eq!(setting, lnc.map(|lnc| format!("NEURON_LOGICAL_NC_CONFIG={lnc}")), "{}", model.name);
        }
    }
}

#[rstest]
#[case("inf1.xlarge", "2.21")]
#[case("trn2.3xlarge", "2.24")]
#[case("trn2.3xlarge", "2.28")]
#[case("trn2.3xlarge", "2.30")]
#[case("trn2.3xlarge", "2.31-unknown")]
fn a_driver_shows_its_own_tree(#[case] instance_type: &str, #[case] driver: &str) {
    let (_folder, root) = place();
    up(&MachineSpec { driver: Some(driver.to_owned()), ..spec(instance_type) }, &root).unwrap();
    let mut shown = listing(&root.join("sys"));
    shown.retain(|path, _| !path.contains("neuron_core") && !path.contains("dmi"));
    insta::assert_snapshot!(format!("driver_{driver}"), compact(&shown));
}

#[rstest]
#[case("2.24", "core_count", 0o400)]
#[case("2.28", "core_count", 0o444)]
#[case("2.30", "reset", 0o600)]
#[case("2.30", "stats/hardware/mem_ecc_uncorrected", 0o644)]
fn a_file_may_be_read_by(#[case] driver: &str, #[case] path: &str, #[case] mode: u32) {
    let (_folder, root) = place();
    up(&MachineSpec { driver: Some(driver.to_owned()), ..spec("trn1.2xlarge") }, &root).unwrap();
    let file = root.join("sys/devices/virtual/neuron_device/neuron0").join(path);
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, mode);
}

#[rstest]
#[case(
    "trn2.3xlarge",
    "2.99",
    "driver 2.99 is not known: give one of the lines 2.21, 2.24, 2.28, 2.29, 2.30, 2.31-unknown, or the version that one of them \
     shows, such as 2.30.2.0"
)]
#[case(
    "inf1.xlarge",
    "foo",
    "driver foo is not known: give one of the lines 2.21, 2.24, 2.28, 2.29, 2.30, 2.31-unknown, or the version that one of them \
     shows, such as 2.21.37.0"
)]
#[case(
    "inf1.xlarge",
    "2.24.7.0",
    "driver 2.24.7.0 does not bind the devices of instance type inf1.xlarge: give one of 2.21"
)]
#[case(
    "inf1.xlarge",
    "2.24",
    "driver 2.24 does not bind the devices of instance type inf1.xlarge: give one of 2.21"
)]
#[case(
    "trn3e.24xlarge",
    "2.24",
    "driver 2.24 does not bind the devices of instance type trn3e.24xlarge: give one of 2.28, 2.29, 2.30, 2.31-unknown"
)]
fn a_driver_that_is_not_known_or_does_not_bind_the_devices_is_refused(
    #[case] instance_type: &str,
    #[case] driver: &str,
    #[case] message: &str,
) {
    let (_folder, root) = place();
    let asked = MachineSpec { driver: Some(driver.to_owned()), ..spec(instance_type) };
    assert_eq!(up(&asked, &root).unwrap_err().to_string(), message);
}

#[test]
fn a_driver_may_be_named_by_the_version_that_it_shows() {
    for driver in Drivers::embedded().all() {
        let (_folder, root) = place();
        let instance_type = if driver.line == "2.21" { "inf1.xlarge" } else { "inf2.xlarge" };
        up(&MachineSpec { driver: Some(driver.version.clone()), ..spec(instance_type) }, &root).unwrap();
        assert_eq!(read(&root, "sys/module/neuron/version"), format!("{}\n", driver.version));
        let by_line = MachineSpec { driver: Some(driver.line.clone()), ..spec(instance_type) };
        assert_eq!(up(&by_line, &root).unwrap().devices(), 1, "the same machine stays");
    }
}

#[rstest]
#[case::counted("trn2.3xlarge", "2.24", "stats/hardware/mem_ecc_uncorrected", "1\n", "0\n")]
#[case::counted_before_components("trn2.3xlarge", "2.28", "stats/hardware/mem_ecc_uncorrected", "1\n", "0\n")]
#[case::named("trn2.3xlarge", "2.30", "stats/hardware/health_status/unhealthy_components", "hbm\n", "\n")]
#[case::moved(
    "trn2.3xlarge",
    "2.31-unknown",
    "moved/stats/hardware/health_status/unhealthy_components",
    "hbm\n",
    "\n"
)]
fn broken_memory_is_shown_as_the_driver_does(
    #[case] instance_type: &str,
    #[case] driver: &str,
    #[case] path: &str,
    #[case] broken: &str,
    #[case] healthy: &str,
) {
    let (_folder, root) = place();
    let machine = up(&MachineSpec { driver: Some(driver.to_owned()), ..spec(instance_type) }, &root).unwrap();
    machine.set_health(0, &Health::unhealthy("hbm")).unwrap();
    assert_eq!(sysfs(&root, 0, path), broken);
    machine.set_health(0, &Health::Healthy).unwrap();
    assert_eq!(sysfs(&root, 0, path), healthy);
}

#[rstest]
#[case::no_newline("trn2.48xlarge", 0, "core_count", "8")]
#[case::inf1_east_then_west("inf1.6xlarge", 1, "connected_devices", "2, 0\n")]
#[case::line_end("inf2.24xlarge", 5, "connected_devices", "4\n")]
#[case::ring_closes("inf2.48xlarge", 0, "connected_devices", "11, 1\n")]
#[case::torus("trn1.32xlarge", 0, "connected_devices", "12, 3, 4, 1\n")]
#[case::torus_in_the_newer_drivers_order("trn2.48xlarge", 13, "connected_devices", "12, 1, 9, 14\n")]
#[case::no_neighbours("inf2.xlarge", 0, "connected_devices", "\n")]
#[case::switch_shows_none("trn3e.24xlarge", 2, "connected_devices", "\n")]
#[case::switch_shows_the_torus_table("trn3.48xlarge", 0, "connected_devices", "12, 1, 3, 4\n")]
#[case("trn1.32xlarge", 15, "dev", "120:15\n")]
#[case("trn1.32xlarge", 15, "uevent", "MAJOR=120\nMINOR=15\nDEVNAME=neuron15\n")]
#[case("trn1.32xlarge", 0, "reset", "1\n")]
#[case("trn1.32xlarge", 0, "info/notify_delay", "-1\n")]
#[case::inf2_is_ndv3("inf2.xlarge", 0, "info/architecture/arch_type", "NDv3\n")]
#[case::but_its_cores_ncv2("inf2.xlarge", 0, "neuron_core1/info/architecture/arch_type", "NCv2\n")]
#[case("trn1.2xlarge", 0, "info/architecture/arch_type", "NDv2\n")]
#[case("trn1.2xlarge", 0, "info/architecture/device_name", "Trainium1\n")]
#[case("trn2.3xlarge", 0, "neuron_core7/info/architecture/arch_type", "NCv3\n")]
#[case("trn3e.24xlarge", 3, "info/architecture/instance_type", "Trn3\n")]
#[case("trn3e.24xlarge", 3, "neuron_core0/info/architecture/arch_type", "NCv4\n")]
#[case("trn2.3xlarge", 0, "stats/hardware/health_status/unhealthy_components", "\n")]
#[case("trn2.3xlarge", 0, "stats/hardware/mem_ecc_uncorrected", "0\n")]
fn a_file_holds_exactly(
    #[case] instance_type: &str,
    #[case] device: u8,
    #[case] path: &str,
    #[case] content: &str,
) {
    let (_folder, root) = place();
    up(&spec(instance_type), &root).unwrap();
    assert_eq!(sysfs(&root, device, path), content);
}

#[test]
fn the_machine_says_who_it_is_under_the_name_asked_for() {
    let (_folder, root) = place();
    let asked = MachineSpec { instance_id: Some("i-0a".to_owned()), ..spec("ml.trn3en.24xlarge") };
    let machine = up(&asked, &root).unwrap();
    assert_eq!(machine.devices(), 4, "as trn3e.24xlarge");
    assert_eq!(read(&root, "sys/devices/virtual/dmi/id/product_name"), "ml.trn3en.24xlarge\n");
    assert_eq!(read(&root, "sys/devices/virtual/dmi/id/board_asset_tag"), "i-0a\n");
    assert_eq!(read(&root, "sys/devices/virtual/dmi/id/sys_vendor"), "Amazon EC2\n");
    assert_eq!(read(&root, "sys/module/neuron/version"), "2.30.2.0\n");
    let devices = read(&root, "proc/devices");
    assert!(devices.lines().any(|line| line == format!("{DRIVER_MAJOR} neuron")), "{devices}");
}

#[test]
fn serial_numbers_are_the_same_every_time_and_differ_between_devices_and_machines() {
    let serials = |id: &str| -> Vec<String> {
        let (_folder, root) = place();
        up(&MachineSpec { instance_id: Some(id.to_owned()), ..spec("trn1.32xlarge") }, &root).unwrap();
        (0..16).map(|device| sysfs(&root, device, "info/serial_number")).collect()
    };
    let first = serials("i-01");
    assert_eq!(first, serials("i-01"));
    let both: BTreeSet<String> = first.iter().cloned().chain(serials("i-02")).collect();
    assert_eq!(both.len(), 32);
    for serial in both {
        let digits = serial.strip_suffix('\n').unwrap();
        assert!(digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{serial:?}");
    }
}

#[test]
fn the_class_leads_to_the_device_and_back() {
    let (_folder, root) = place();
    up(&spec("inf2.24xlarge"), &root).unwrap();
    let device = root.join("sys/devices/virtual/neuron_device/neuron4");
    assert_eq!(root.join("sys/class/neuron_device/neuron4").canonicalize().unwrap(), device);
    assert_eq!(device.join("subsystem").canonicalize().unwrap(), root.join("sys/class/neuron_device"));
}

fn names(folder: &std::path::Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// One line a file. Counters at 0 are many and alike: one line for all devices and cores, with their number.
fn compact(listing: &BTreeMap<String, String>) -> String {
    let mut lines = BTreeMap::<(String, &str), usize>::new();
    for (path, content) in listing {
        let many = content == "\"0\\n\"" || path.contains("neuron_core");
        let path = if many { without_ids(path) } else { path.clone() };
        *lines.entry((path, content)).or_default() += 1;
    }
    let line = |((path, content), count): (&(String, &str), &usize)| match count {
        1 => format!("{path} = {content}\n"),
        several => format!("{path} = {content} x{several}\n"),
    };
    lines.iter().map(line).collect()
}

/// `neuron3` and `neuron_core1` become `neuron*` and `neuron_core*`.
fn without_ids(path: &str) -> String {
    let part = |part: &str| match part.trim_end_matches(|end: char| end.is_ascii_digit()) {
        "neuron" => "neuron*".to_owned(),
        "neuron_core" => "neuron_core*".to_owned(),
        _ => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}
