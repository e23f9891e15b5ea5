//! Every type of the catalog inside `fake-neuron exec`: `/dev`, sysfs, the ioctls, `neuron-ls` and `neuron-monitor` say the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod program;

use std::collections::BTreeMap;
use std::process::Command;

use neuron_core::catalog::{Catalog, Generation, InstanceType};
use program::{Linked, program};
use serde_json::Value;

/// What one source says of a device; none where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Said {
    /// Of one device.
    logical_cores: Option<u64>,
    physical_cores: Option<u64>,
    links: Option<Vec<u64>>,
    address: Option<String>,
}

/// What each source says, by device id.
type Sources = BTreeMap<&'static str, BTreeMap<u64, Said>>;

/// Prints, with a line before each: what is in `/dev`, the devices' files, and what the ioctls and the tools answer.
const SCRIPT: &str = r#"
    echo "== dev"; ls /dev | sed -n 's/^neuron\([0-9]*\)$/\1/p'
    echo "== sysfs"
    for device in /sys/class/neuron_device/neuron[0-9]*; do
        echo "${device##*neuron}|$(cat $device/core_count)|$(cat $device/connected_devices)"
    done
    echo "== ioctl"; "$0" facts "$1" || exit 1
    echo "== ls"; neuron-ls -j || exit 1; echo
    # It notices that nobody reads any more when it has its next record.
    echo "== monitor"; echo '{"period": "50ms"}' | neuron-monitor -c /dev/stdin | head -1
"#;

#[test]
fn every_source_says_what_the_catalog_says() {
    let Some(discover) = program(Linked::Statically) else { return };
    for model in Catalog::embedded().types() {
        let settings: &[u8] = if model.generation >= Generation::Trn2 { &[2, 1] } else { &[1] };
        for lnc in settings {
            let output = Command::new(env!("CARGO_BIN_EXE_fake-neuron"))
                .args([
                    "exec",
                    "--instance-type",
                    &model.name,
                    "--lnc",
                    &lnc.to_string(),
                    "--",
                    "sh",
                    "-c",
                    SCRIPT,
                ])
                .arg(&discover)
                .arg(model.devices.to_string())
                .env_remove("NEURON_LOGICAL_NC_CONFIG")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.code() == Some(125) {
                assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "{said}");
                println!("skipped: {said}");
                return;
            }
            assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""), "{}", model.name);
            compare(model, *lnc, &String::from_utf8(output.stdout).unwrap());
        }
    }
}

fn compare(model: &InstanceType, lnc: u8, printed: &str) {
    let places = fake_neuron::pci::places(&model.name, model.devices);
    let sources = sources(printed);
    assert_eq!(sources.keys().copied().collect::<Vec<_>>(), ["dev", "ioctl", "ls", "monitor", "sysfs"]);
    for (source, devices) in &sources {
        let ids: Vec<u64> = devices.keys().copied().collect();
        assert_eq!(ids, (0..u64::from(model.devices)).collect::<Vec<_>>(), "{}: {source}", model.name);
        for ((id, said), place) in devices.iter().zip(&places) {
            let links =
                model.driver_links[usize::try_from(*id).unwrap()].iter().copied().map(u64::from).collect();
            let known = Said {
                logical_cores: said.logical_cores.and(Some(u64::from(model.cores_per_device / lnc))),
                physical_cores: said.physical_cores.and(Some(u64::from(model.cores_per_device))),
                links: said.links.as_ref().and(Some(links)),
                address: said.address.as_ref().and(Some(place.address.to_string())),
            };
            assert_eq!(*said, known, "{} at LNC {lnc}: device {id} by {source}", model.name);
        }
    }
    let says = |source: &str, fact: fn(&Said) -> bool| sources[source].values().all(fact);
    assert!(says("sysfs", |said| said.physical_cores.is_some() && said.links.is_some()));
    assert!(says("ioctl", |said| said.links.is_some() && said.address.is_some()));
    assert!(says("ls", |said| said.logical_cores.is_some()
        && said.links.is_some()
        && said.address.is_some()));
    assert!(says("monitor", |said| said.logical_cores.is_some()));
}

fn sources(printed: &str) -> Sources {
    let mut sources = Sources::new();
    for part in printed.split("== ").filter(|part| !part.is_empty()) {
        let (name, text) = part.split_once('\n').unwrap();
        let (name, devices) = match name {
            "dev" => ("dev", text.lines().map(|id| (number(id), Said::default())).collect()),
            "sysfs" => ("sysfs", sysfs(text)),
            "ioctl" => ("ioctl", ioctl(text)),
            "ls" => ("ls", ls(text)),
            "monitor" => ("monitor", monitor(text)),
            other => panic!("{other} is no source"),
        };
        sources.insert(name, devices);
    }
    sources
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn numbers(text: &str, separator: char) -> Vec<u64> {
    text.split(separator).filter(|text| !text.trim().is_empty()).map(number).collect()
}

fn sysfs(text: &str) -> BTreeMap<u64, Said> {
    let device = |line: &str| {
        let [id, cores, links] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let said =
            Said { physical_cores: Some(number(cores)), links: Some(numbers(links, ',')), ..Said::default() };
        (number(id), said)
    };
    text.lines().map(device).collect()
}

/// The lines `neuron3 arch 3 revision 0 links 2 15 7 0` and `neuron3 bdf_ext 0000:cb:00.0`.
fn ioctl(text: &str) -> BTreeMap<u64, Said> {
    let mut devices: BTreeMap<u64, Said> = BTreeMap::new();
    for line in text.lines() {
        let Some((id, rest)) = line.strip_prefix("neuron").and_then(|line| line.split_once(' ')) else {
            continue;
        };
        let said = devices.entry(number(id)).or_default();
        if let Some((_, links)) = rest.split_once(" links") {
            said.links = Some(numbers(links, ' '));
        } else if let Some(address) = rest.strip_prefix("bdf_ext ") {
            said.address = Some(address.to_owned());
        }
    }
    devices
}

fn ls(text: &str) -> BTreeMap<u64, Said> {
    let devices: Vec<Value> = serde_json::from_str(text).unwrap();
    let device = |device: &Value| {
        let links = device["connected_to"].as_array().cloned().unwrap_or_default();
        let said = Said {
            logical_cores: device["nc_count"].as_u64(),
            links: Some(links.iter().map(|id| id.as_u64().unwrap()).collect()),
            address: device["bdf"].as_str().map(str::to_owned),
            ..Said::default()
        };
        (device["neuron_device"].as_u64().unwrap(), said)
    };
    devices.iter().map(device).collect()
}

fn monitor(text: &str) -> BTreeMap<u64, Said> {
    let record: Value = serde_json::from_str(text).unwrap();
    let hardware = &record["neuron_hardware_info"];
    let said = Said { logical_cores: hardware["neuroncore_per_device_count"].as_u64(), ..Said::default() };
    (0..hardware["neuron_device_count"].as_u64().unwrap()).map(|id| (id, said.clone())).collect()
}
