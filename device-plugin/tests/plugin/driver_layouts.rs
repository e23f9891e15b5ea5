//! Machines whose driver shows its files elsewhere than expected, or shows less: what is served, and what is said of its health.

use std::fs;
use std::path::Path;

use fake_neuron::{Health, Machine, MachineSpec};
use neuron_core::catalog::Catalog;
use neuron_core::driver::Drivers;
use neuron_core::topology::Policy;
use neuron_device_plugin::hardware::discovery::Discovery;
use neuron_device_plugin::hardware::machine::Machine as Found;
use neuron_device_plugin::{HealthOptions, System, UnknownHealth};
use testkit_support::eventually;

use crate::node::{Node, asks};

const SYSFS: &str = "sys/devices/virtual/neuron_device";

fn up(instance_type: &str, driver: &str, root: &Path) -> Machine {
    let spec = MachineSpec {
        instance_type: instance_type.to_owned(),
        lnc: None,
        instance_id: None,
        driver: Some(driver.to_owned()),
    };
    Machine::up(&spec, root, Catalog::embedded()).unwrap()
}

async fn look(root: &Path, health: &HealthOptions) -> Result<Found, String> {
    let (system, catalog, policy) = (System::real(), Catalog::embedded(), Policy::Documented);
    let discovery = Discovery { system: &system, root, catalog, policy, instance_type: None, health };
    discovery.look(None).await.map_err(|error| error.to_string().replace(root.to_str().unwrap(), "R"))
}

/// What is said of the devices that are not healthy.
fn said(found: &Found, root: &Path) -> Vec<String> {
    let faults = found.faults.iter().map(|(id, why)| format!("{id}: {why}"));
    let unknown = found.unknown.iter().map(|(id, why)| format!("{id}: {why}"));
    faults.chain(unknown).map(|text| text.replace(root.to_str().unwrap(), "R")).collect()
}

#[tokio::test]
async fn every_type_is_healthy_with_every_driver_that_binds_it_and_a_broken_device_is_seen() {
    for model in Catalog::embedded().types().iter().filter(|model| model.devices <= 4) {
        for driver in Drivers::embedded().all() {
            if !driver.generations.contains(&model.generation) {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let machine = up(&model.name, &driver.line, dir.path());
            let what = format!("{} with driver {}", model.name, driver.line);
            let found = look(dir.path(), &HealthOptions::default()).await.unwrap();
            assert_eq!(found.topology.devices(), model.devices, "{what}");
            assert_eq!(said(&found, dir.path()), [""; 0], "{what}");
            machine.set_health(0, &Health::unhealthy("hbm")).unwrap();
            assert!(found.with(found.look().await).unhealthy().contains(0), "{what}");
            machine.set_health(0, &Health::Healthy).unwrap();
            assert!(found.with(found.look().await).unhealthy().is_empty(), "{what}");
        }
    }
}

#[tokio::test]
async fn a_catalog_type_is_served_by_its_nodes_alone_and_its_health_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let _machine = up("inf2.24xlarge", "2.30", dir.path());
    fs::remove_dir_all(dir.path().join(SYSFS)).unwrap();
    fs::remove_dir_all(dir.path().join("sys/module")).unwrap();
    let found = look(dir.path(), &HealthOptions::default()).await.unwrap();
    assert_eq!((found.topology.devices(), found.topology.cores()), (6, 12));
    let said = said(&found, dir.path());
    assert_eq!(said.len(), 6, "{said:?}");
    assert_eq!(
        said[3],
        "3: its health is not known: reset, sram_ecc_uncorrected, mem_ecc_uncorrected, \
         mem_ecc_repairable_uncorrected cannot be read below R/sys/devices/virtual/neuron_device/neuron3"
    );
    assert!(found.unhealthy().is_empty(), "served all the same");
    let refuse = HealthOptions { unknown: UnknownHealth::Refuse, ..HealthOptions::default() };
    let found = look(dir.path(), &refuse).await.unwrap();
    assert_eq!(found.unhealthy(), found.topology.all_devices());
}

#[tokio::test]
async fn a_type_in_no_catalog_needs_its_core_count() {
    let dir = tempfile::tempdir().unwrap();
    let _machine = up("inf2.24xlarge", "2.31-unknown", dir.path());
    let dmi = dir.path().join("sys/devices/virtual/dmi/id/product_name");
    fs::remove_file(&dmi).unwrap();
    fs::write(&dmi, "inf9.24xlarge\n").unwrap();
    let found = look(dir.path(), &HealthOptions::default()).await.unwrap();
    assert_eq!((found.topology.devices(), found.topology.cores()), (6, 12), "found by its name");
    assert!(found.topology.is_connected("1,2,3".parse().unwrap()));
    fs::remove_dir_all(dir.path().join(SYSFS)).unwrap();
    assert_eq!(
        look(dir.path(), &HealthOptions::default()).await.unwrap_err(),
        "instance type inf9.24xlarge is in no catalog, and no core_count is below R/sys/devices/virtual/neuron_device; \
         add the type with --catalog, or say with --instance-type which type it is like"
    );
}

#[tokio::test]
async fn a_health_file_that_goes_is_no_health() {
    let node = Node::new("inf2.24xlarge");
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 6).await;
    node.report("all healthy", |report| report["devices"][2]["health"] == "Healthy").await;
    let counter = node.config.root.join(SYSFS).join("neuron2/stats/hardware/mem_ecc_uncorrected");
    fs::remove_file(&counter).unwrap();
    let report = node.report("it unknown", |report| report["devices"][2]["health"] == "Unknown").await;
    let reason = report["devices"][2]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("its health is not known: mem_ecc_uncorrected cannot be read below"),
        "{reason}"
    );
    let told = |events: &std::collections::BTreeSet<String>| {
        events
            .iter()
            .any(|event| event.contains("NeuronDeviceHealth: neuron2 is served: its health is not known"))
    };
    eventually("an event", async || told(&node.events().await).then_some(())).await;
    // kubelet goes on offering it, and gives it out.
    node.place("p", asks("neuron", 6), &[]).await;
    node.phase("p", "Running").await;
    fs::write(&counter, "0\n").unwrap();
    node.report("it healthy", |report| report["devices"][2]["health"] == "Healthy").await;
}
