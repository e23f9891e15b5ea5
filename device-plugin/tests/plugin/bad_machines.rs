//! Machines with missing or mangled files: what the plugin says, and that it goes on.

use std::fs;
use std::path::Path;
use std::process::Command;

use fake_neuron::{Health, Machine, MachineSpec};
use neuron_core::catalog::Catalog;
use neuron_core::topology::Policy;
use neuron_device_plugin::hardware::discovery::Discovery;
use neuron_device_plugin::hardware::machine::Machine as Found;
use neuron_device_plugin::{HealthOptions, System};
use rstest::rstest;
use testkit_support::eventually;

use crate::node::{Node, asks, get};

const DEVICES: &str = "sys/devices/virtual/neuron_device";

fn machine(instance_type: &str, root: &Path) -> Machine {
    let spec =
        MachineSpec { instance_type: instance_type.to_owned(), lnc: None, instance_id: None, driver: None };
    Machine::up(&spec, root, Catalog::embedded()).unwrap()
}

async fn look(root: &Path, instance_type: Option<&str>) -> Result<Found, String> {
    let (system, catalog, health) = (System::real(), Catalog::embedded(), HealthOptions::default());
    let policy = Policy::Documented;
    let discovery = Discovery { system: &system, root, catalog, policy, instance_type, health: &health };
    discovery.look(None).await.map_err(|error| error.to_string().replace(root.to_str().unwrap(), "R"))
}

/// What is wrong with a machine's devices.
fn faults(found: &Found, root: &Path) -> Vec<String> {
    let faults = found.faults.iter().map(|(id, why)| format!("{id}: {why}"));
    faults.map(|fault| fault.replace(root.to_str().unwrap(), "R")).collect()
}

fn write(path: impl AsRef<Path>, text: &str) {
    // The fake keeps the driver's own read-only modes.
    let _ = fs::remove_file(&path);
    fs::write(path, text).unwrap();
}

#[rstest]
#[case::no_dmi(
    "sys/devices/virtual/dmi/id/product_name",
    None,
    "cannot read R/sys/devices/virtual/dmi/id/product_name: No such file or directory (os error 2)"
)]
#[case::dmi_of_no_instance(
    "sys/devices/virtual/dmi/id/product_name",
    Some("HVM domU\n"),
    "R/sys/devices/virtual/dmi/id/product_name holds \"HVM domU\\n\", expected an instance type such as trn1.32xlarge"
)]
#[case::lnc(
    "opt/aws/neuron/logical_nc_config",
    Some("NEURON_LOGICAL_NC_CONFIG=three"),
    "R/opt/aws/neuron/logical_nc_config holds \"NEURON_LOGICAL_NC_CONFIG=three\", expected NEURON_LOGICAL_NC_CONFIG=1 or =2"
)]
#[case::lnc_that_the_type_cannot(
    "opt/aws/neuron/logical_nc_config",
    Some("NEURON_LOGICAL_NC_CONFIG=2"),
    "instance type inf2.xlarge cannot run with LNC 2; use 1"
)]
#[case::other_core_count(
    "sys/devices/virtual/neuron_device/neuron0/core_count",
    Some("8"),
    "R/sys/devices/virtual/neuron_device/neuron0/core_count holds 8, but a device of instance type inf2.xlarge has 2 cores; set --instance-type to what this machine is"
)]
#[tokio::test]
async fn one_file(#[case] file: &str, #[case] text: Option<&str>, #[case] message: &str) {
    let dir = tempfile::tempdir().unwrap();
    let _machine = machine("inf2.xlarge", dir.path());
    let path = dir.path().join(file);
    match text {
        Some(text) => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            write(&path, text);
        }
        None => fs::remove_file(&path).unwrap(),
    }
    assert_eq!(look(dir.path(), None).await.unwrap_err(), message);
}

#[rstest]
#[case::core_count("core_count", "many", "holds \"many\", expected a number of cores, 1 to 128")]
#[case::links("connected_devices", "1; 2\n", "holds \"1; 2\\n\", expected device ids separated by commas")]
#[tokio::test]
async fn a_machine_of_a_known_type_without_a_good_device_is_one_of_that_type(
    #[case] file: &str,
    #[case] text: &str,
    #[case] message: &str,
) {
    let dir = tempfile::tempdir().unwrap();
    let _machine = machine("inf2.xlarge", dir.path());
    write(dir.path().join(DEVICES).join("neuron0").join(file), text);
    let found = look(dir.path(), None).await.unwrap();
    assert_eq!((found.topology.devices(), found.topology.cores()), (1, 2));
    assert_eq!(faults(&found, dir.path()), [format!("0: R/{DEVICES}/neuron0/{file} {message}")]);
}

#[tokio::test]
async fn a_device_that_can_be_read_at_last_must_be_one_of_the_type() {
    let dir = tempfile::tempdir().unwrap();
    let _machine = machine("inf2.xlarge", dir.path());
    let core_count = dir.path().join(DEVICES).join("neuron0/core_count");
    write(&core_count, "many");
    let found = look(dir.path(), None).await.unwrap();
    write(&core_count, "8");
    let other = found.with(found.look().await);
    let why = format!(
        "0: R/{DEVICES}/neuron0/core_count holds \"8\", expected as many cores as a device of the instance type has"
    );
    assert_eq!(faults(&other, dir.path()), [why]);
    write(&core_count, "2");
    assert_eq!(faults(&found.with(found.look().await), dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn no_driver_and_another_type_than_said() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        "no neuronN is in R/dev or in R/sys/devices/virtual/neuron_device; is the Neuron driver loaded?";
    assert_eq!(look(dir.path(), Some("inf2.xlarge")).await.unwrap_err(), text);
    let _machine = machine("inf2.24xlarge", dir.path());
    assert_eq!(
        look(dir.path(), Some("inf2.xlarge")).await.unwrap_err(),
        "this machine has devices 0,1,2,3,4,5 (below R), but instance type inf2.xlarge has 1; set --instance-type to what this machine is"
    );
}

#[tokio::test]
async fn settings_appended_without_a_newline_count_last() {
    let dir = tempfile::tempdir().unwrap();
    let _machine = machine("trn2.48xlarge", dir.path());
    let path = dir.path().join("opt/aws/neuron/logical_nc_config");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write(&path, "NEURON_LOGICAL_NC_CONFIG=2NEURON_LOGICAL_NC_CONFIG=1");
    let found = look(dir.path(), None).await.unwrap();
    assert_eq!((found.topology.lnc(), found.topology.cores()), (1, 128));
}

#[rstest]
#[case::none("\n", 2)]
#[case::other_settings(
    "# NEURON_LOGICAL_NC_CONFIG=2\nNEURON_LOGICAL_NC_CONFIG=1\nNEURON_RT_LOG_LEVEL=INFO\n",
    1
)]
#[case::other_settings_alone("NEURON_RT_LOG_LEVEL=INFO\n", 2)]
#[case::the_last("NEURON_LOGICAL_NC_CONFIG=1\nNEURON_LOGICAL_NC_CONFIG=2\n", 2)]
#[tokio::test]
async fn further_lines_of_the_lnc_file_are_no_error(#[case] text: &str, #[case] lnc: u8) {
    let dir = tempfile::tempdir().unwrap();
    let _machine = machine("trn2.3xlarge", dir.path());
    let path = dir.path().join("opt/aws/neuron/logical_nc_config");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write(&path, text);
    let found = look(dir.path(), None).await.unwrap();
    assert_eq!((found.topology.lnc(), found.told_lnc()), (lnc, (lnc == 1).then_some(1)));
}

#[tokio::test]
async fn one_bad_device_is_unhealthy_and_the_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let machine = machine("inf2.24xlarge", dir.path());
    let file = |path: &str| dir.path().join(DEVICES).join(path);
    write(file("neuron0/core_count"), "x");
    machine.lose(1).unwrap();
    machine.set_health(2, &Health::unhealthy("hbm")).unwrap();
    write(file("neuron3/stats/hardware/sram_ecc_uncorrected"), "?\n");
    fs::remove_file(dir.path().join("dev/neuron4")).unwrap();
    write(file("neuron5/connected_devices"), "?");
    let found = look(dir.path(), None).await.unwrap();
    assert_eq!(
        faults(&found, dir.path()),
        [
            "0: R/sys/devices/virtual/neuron_device/neuron0/core_count holds \"x\", expected a number of cores, 1 to 128",
            "1: R/dev/neuron1 is missing",
            "2: mem_ecc_uncorrected is above 0: its memory has had errors that could not be corrected",
            "3: R/sys/devices/virtual/neuron_device/neuron3/stats/hardware/sram_ecc_uncorrected holds \"?\\n\", expected a number of errors",
            "4: R/dev/neuron4 is missing",
            "5: R/sys/devices/virtual/neuron_device/neuron5/connected_devices holds \"?\", expected device ids separated by commas",
        ]
    );
    write(file("neuron0/core_count"), "2");
    machine.restore(1).unwrap();
    machine.set_health(2, &Health::Healthy).unwrap();
    write(file("neuron3/stats/hardware/sram_ecc_uncorrected"), "0\n");
    fs::write(dir.path().join("dev/neuron4"), "").unwrap();
    write(file("neuron5/connected_devices"), "4\n");
    let now = found.with(found.look().await);
    assert_eq!((now.faults, now.unknown), Default::default(), "only the files of now decide");
}

#[tokio::test]
async fn a_file_that_hangs_makes_its_device_unhealthy_and_holds_up_neither_others_nor_the_end() {
    let mut node = Node::new("inf2.24xlarge");
    let hangs = node.config.root.join(DEVICES).join("neuron2/stats/hardware/mem_ecc_uncorrected");
    fs::remove_file(&hangs).unwrap();
    assert!(Command::new("mkfifo").arg(&hangs).status().unwrap().success());
    let found = look(&node.config.root, None).await.unwrap();
    let why = "R/sys/devices/virtual/neuron_device/neuron2/stats/hardware/mem_ecc_uncorrected hangs: it could not be read in time";
    assert_eq!(faults(&found, &node.config.root), [format!("2: {why}")]);
    // Each system has a thread that reads, which ends with its writer.
    fs::write(&hangs, "").unwrap();

    let address = node.listen();
    let _kubelet = node.kubelet().await;
    let plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 5).await;
    node.machine.lose(4).unwrap();
    node.shows("aws.amazon.com/neuron", 4).await;
    node.a_pod_runs(2).await;
    let health = get(address, "/healthz").await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    plugin.stop().await;
    fs::write(&hangs, "").unwrap();
}

#[tokio::test]
async fn a_type_in_no_catalog_is_described_by_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let _machine = machine("inf2.24xlarge", dir.path());
    write(dir.path().join("sys/devices/virtual/dmi/id/product_name"), "inf9.24xlarge\n");
    let found = look(dir.path(), None).await.unwrap();
    assert_eq!(found.topology.instance_type(), "inf9.24xlarge");
    assert_eq!((found.topology.devices(), found.topology.cores()), (6, 12));
    assert!(found.topology.is_connected("1,2,3".parse().unwrap()));
    assert!(!found.topology.is_connected("0,2".parse().unwrap()));
}

#[tokio::test]
async fn without_devices_the_plugin_says_why_and_starts_when_they_come() {
    let mut node = Node::new("inf2.xlarge");
    let address = node.listen();
    let healthz = async || get(address, "/healthz").await;
    node.machine.lose(0).unwrap();
    let _kubelet = node.kubelet().await;
    let plugin = node.plugin();
    let why = format!(
        "devices: no neuronN is in {root}/dev or in {root}/{DEVICES}; is the Neuron driver loaded?",
        root = node.config.root.display()
    );
    let answer =
        eventually("the reason", async || healthz().await.filter(|answer| answer.contains(&why))).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");

    node.machine.restore(0).unwrap();
    eventually("200", async || healthz().await.filter(|answer| answer.starts_with("HTTP/1.1 200"))).await;
    node.shows("aws.amazon.com/neuron", 1).await;
    plugin.stop().await;
}

/// Loses the last devices of a machine, as while its driver loads.
fn few(node: &Node, devices: std::ops::Range<u8>) {
    devices.for_each(|device| node.machine.lose(device).unwrap());
}

#[tokio::test]
async fn a_catalog_type_whose_driver_still_loads_is_offered_whole_and_fills_up() {
    let node = Node::new("trn1.32xlarge");
    few(&node, 5..16);
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 5).await;
    node.report("sixteen", |report| report["devices"].as_array().is_some_and(|all| all.len() == 16)).await;
    (5..16).for_each(|device| node.machine.restore(device).unwrap());
    node.shows("aws.amazon.com/neuron", 16).await;
}

#[tokio::test]
async fn an_unknown_type_whose_driver_still_loads_is_not_offered_as_a_smaller_machine() {
    let mut node = Node::new("inf2.24xlarge");
    node.config.settle = std::time::Duration::from_secs(2);
    write(node.config.root.join("sys/devices/virtual/dmi/id/product_name"), "inf9.24xlarge\n");
    few(&node, 2..6);
    let address = node.listen();
    let _kubelet = node.kubelet().await;
    let plugin = node.plugin();
    let waits = "waiting until devices 0,1 are all there have been for 2s";
    eventually("it to wait", async || get(address, "/healthz").await.filter(|answer| answer.contains(waits)))
        .await;
    (2..6).for_each(|device| node.machine.restore(device).unwrap());
    let report = node.report("a machine", |report| report["instanceType"] == "inf9.24xlarge").await;
    assert_eq!(report["devices"].as_array().unwrap().len(), 6, "never two");
    node.shows("aws.amazon.com/neuron", 6).await;
    fs::write(node.config.root.join("dev/neuron6"), "").unwrap();
    let note = "devices 6 came after this machine was offered without them: restart the plugin to serve them";
    eventually("a note", async || get(address, "/healthz").await.filter(|answer| answer.contains(note)))
        .await;
    plugin.stop().await;
}

#[tokio::test]
async fn a_lost_device_is_out_until_it_is_back_and_stops_nothing_else() {
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.machine.lose(2).unwrap();
    node.shows("aws.amazon.com/neuron", 5).await;
    node.shows("aws.amazon.com/neuroncore", 10).await;
    node.report("it unhealthy", |report| report["devices"][2]["health"] == "Unhealthy").await;
    node.place("p", asks("neuron", 3), &[]).await;
    node.phase("p", "Running").await;
    let (_, ids) = node.got("p", "main", "AWS_NEURON_VISIBLE_DEVICES");
    assert_eq!(ids.as_deref(), Some("3,4,5"));
    node.machine.restore(2).unwrap();
    node.shows("aws.amazon.com/neuron", 6).await;
    node.report("it healthy", |report| report["devices"][2]["health"] == "Healthy").await;
}
