//! Every type of the catalog inside `fake-neuron exec`: DMI, `/dev`, sysfs, the ioctls, `neuron-ls` and `neuron-monitor` say the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod program;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use fake_neuron::{Blueprint, DRIVER_MAJOR};
use neuron_core::catalog::{Catalog, Generation, InstanceType};
use program::{Linked, program};
use serde_json::Value;

/// What a source says of one device, or of the host: texts by the fact's name.
type Facts = BTreeMap<&'static str, String>;

/// What each source says of each device; the index is the device's id.
type Sources = BTreeMap<&'static str, Vec<Facts>>;

/// Prints, with a line before each: what DMI says, what is in `/dev`, the devices' files, and what the ioctls and the tools answer.
const SCRIPT: &str = r#"
    echo "== dmi"; cat /sys/devices/virtual/dmi/id/product_name /sys/devices/virtual/dmi/id/board_asset_tag
    echo "== dev"
    for node in $(ls /dev | grep '^neuron[0-9]*$' | sort -V); do stat -c %t:%T /dev/$node; done
    echo "== sysfs"
    for id in $(ls /sys/class/neuron_device | sed -n 's/^neuron\([0-9]*\)$/\1/p' | sort -n); do
        device=/sys/class/neuron_device/neuron$id
        echo "$(cat $device/core_count)|$(cat $device/connected_devices)|$(cat $device/dev)|$(cat $device/info/architecture/instance_type)"
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
        let has_logical_cores = model.generation >= Generation::Trn2;
        let settings: &[_] = if has_logical_cores { &[None, Some(2), Some(1)] } else { &[None] };
        for lnc in settings {
            let Some(printed) = exec(&model.name, model.devices, *lnc, &discover) else { return };
            compare(&model.name, model, *lnc, &printed);
        }
    }
    // SageMaker's name of a machine, and a name that means another type: both are shown as they were given.
    for (name, means) in [("ml.trn2.48xlarge", "trn2.48xlarge"), ("trn2p.48xlarge", "trn2.48xlarge")] {
        let model = Catalog::embedded().find(name).unwrap();
        assert_eq!(model.devices, Catalog::embedded().find(means).unwrap().devices);
        let Some(printed) = exec(name, model.devices, None, &discover) else { return };
        compare(name, model, None, &printed);
    }
}

/// What the script prints; none, and why, where this machine cannot.
fn exec(name: &str, devices: u8, lnc: Option<u8>, discover: &Path) -> Option<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
    command.args(["exec", "--instance-type", name]);
    if let Some(lnc) = lnc {
        command.args(["--lnc", &lnc.to_string()]);
    }
    command.args(["--", "sh", "-c", SCRIPT]).arg(discover).arg(devices.to_string());
    let output = command.env_remove("NEURON_LOGICAL_NC_CONFIG").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(125) {
        assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "{said}");
        println!("skipped: {said}");
        return None;
    }
    assert_eq!((output.status.code(), said.as_ref()), (Some(0), ""), "{name}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn compare(name: &str, model: &InstanceType, lnc: Option<u8>, printed: &str) {
    let sources = sources(printed, model.devices);
    for (source, facts) in FACTS {
        let devices = &sources[source];
        assert_eq!(devices.len(), usize::from(model.devices), "{name}: {source}");
        let known = (0..model.devices).map(|device| known(name, model, lnc, device));
        for ((device, known), said) in known.enumerate().zip(devices) {
            let mut said_of: Vec<&str> = said.keys().copied().collect();
            // Which the tool tells only of types that may have more than one.
            said_of.retain(|fact| *fact != "LNC");
            assert_eq!(said_of, *facts, "{name}: device {device} by {source}");
            for (fact, said) in said {
                assert_eq!(
                    *said, known[fact],
                    "{name} at LNC {lnc:?}: {fact} of device {device} by {source}"
                );
            }
        }
    }
    assert!(sources["monitor"][0].contains_key("LNC"));
    assert_eq!(sources["ls"][0].contains_key("LNC"), model.generation >= Generation::Trn2, "{name}");
}

/// What each source tells, in alphabetical order; LNC besides.
const FACTS: [(&str, &[&str]); 6] = [
    ("dmi", &["instance id", "type"]),
    ("dev", &["major:minor"]),
    ("sysfs", &["family", "links", "major:minor", "physical cores"]),
    ("ioctl", &["PCI address", "architecture", "host id", "links"]),
    ("ls", &["PCI address", "core ids", "instance id", "links", "logical cores", "memory", "type"]),
    ("monitor", &["instance id", "logical cores", "memory", "type"]),
];

/// What is so, by the catalog.
fn known(name: &str, model: &InstanceType, lnc: Option<u8>, device: u8) -> Facts {
    let lnc = lnc.unwrap_or(model.default_lnc);
    let logical = u32::from(model.cores_per_device / lnc);
    let first = u32::from(device) * logical;
    let (family, architecture) = match model.generation {
        Generation::Inf1 => ("Inf1", 1),
        Generation::Inf2 => ("Inf2", 2),
        Generation::Trn1 => ("Trn1", 2),
        Generation::Trn2 => ("Trn2", 3),
        Generation::Trn3 => ("Trn3", 4),
    };
    let place = usize::from(device);
    Facts::from([
        ("type", name.to_owned()),
        // Made from the type's name; that all sources tell the same one is what counts.
        (
            "instance id",
            Blueprint::of(&common::spec(name), Catalog::embedded()).unwrap().instance_id().to_owned(),
        ),
        ("major:minor", format!("{DRIVER_MAJOR}:{device}")),
        ("host id", device.to_string()),
        ("family", family.to_owned()),
        ("architecture", architecture.to_string()),
        ("physical cores", model.cores_per_device.to_string()),
        ("logical cores", logical.to_string()),
        ("LNC", lnc.to_string()),
        ("core ids", joined(first..first + logical)),
        ("links", joined(model.driver_links[place].iter().map(|id| u32::from(*id)))),
        ("memory", model.device_memory_bytes.to_string()),
        ("PCI address", fake_neuron::pci::places(name, model.devices)[place].address.to_string()),
    ])
}

fn joined(ids: impl IntoIterator<Item = u32>) -> String {
    ids.into_iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
}

fn sources(printed: &str, devices: u8) -> Sources {
    let parts = printed.split("== ").filter(|part| !part.is_empty());
    let source = |part: &str| {
        let (name, text) = part.split_once('\n').unwrap();
        match name {
            "dmi" => ("dmi", vec![dmi(text); usize::from(devices)]),
            "dev" => ("dev", text.lines().map(dev).collect()),
            "sysfs" => ("sysfs", text.lines().map(sysfs).collect()),
            "ioctl" => ("ioctl", (0..devices).map(|device| ioctl(text, device)).collect()),
            "ls" => ("ls", serde_json::from_str::<Vec<Value>>(text).unwrap().iter().map(ls).collect()),
            "monitor" => ("monitor", monitor(&serde_json::from_str(text).unwrap())),
            other => panic!("{other} is no source"),
        }
    };
    parts.map(source).collect()
}

fn dmi(text: &str) -> Facts {
    let (name, id) = text.trim().split_once('\n').unwrap();
    Facts::from([("type", name.to_owned()), ("instance id", id.to_owned())])
}

/// Major and minor number, hexadecimal.
fn dev(line: &str) -> Facts {
    let (major, minor) = line.split_once(':').unwrap();
    let number = |text| u32::from_str_radix(text, 16).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    Facts::from([("major:minor", format!("{}:{}", number(major), number(minor)))])
}

fn sysfs(line: &str) -> Facts {
    let [cores, links, numbers, family] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
    Facts::from([
        ("physical cores", cores.to_owned()),
        ("links", links.replace(',', "")),
        ("major:minor", numbers.to_owned()),
        ("family", family.to_owned()),
    ])
}

/// From lines such as `neuron3 arch 3 revision 0 links 2 15 7 0`, `neuron3 bdf_ext 0000:cb:00.0` and `neuron3 host id 3`.
fn ioctl(text: &str, device: u8) -> Facts {
    let start = format!("neuron{device} ");
    let mut facts = Facts::new();
    for line in text.lines().filter_map(|line| line.strip_prefix(&start)) {
        if let Some(rest) = line.strip_prefix("arch ") {
            let (architecture, rest) = rest.split_once(' ').unwrap();
            facts.insert("architecture", architecture.to_owned());
            facts.insert("links", rest.split_once("links").unwrap().1.trim().to_owned());
        } else if let Some(address) = line.strip_prefix("bdf_ext ") {
            facts.insert("PCI address", address.to_owned());
        } else if let Some(id) = line.strip_prefix("host id ") {
            facts.insert("host id", id.to_owned());
        }
    }
    facts
}

fn ls(device: &Value) -> Facts {
    let ids = |key: &str| {
        let ids = device[key].as_array().cloned().unwrap_or_default();
        joined(ids.iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()))
    };
    let text = |key: &str| device[key].as_str().unwrap().to_owned();
    let mut facts = Facts::from([
        ("type", text("instance_type")),
        ("instance id", text("instance_id")),
        ("logical cores", device["nc_count"].to_string()),
        ("core ids", ids("neuroncore_ids")),
        ("links", ids("connected_to")),
        ("PCI address", text("bdf")),
        ("memory", device["memory_size"].to_string()),
    ]);
    if let Some(lnc) = device.get("logical_neuroncore_config") {
        facts.insert("LNC", lnc.to_string());
    }
    facts
}

/// The monitor tells of all devices at once.
fn monitor(record: &Value) -> Vec<Facts> {
    let (hardware, instance) = (&record["neuron_hardware_info"], &record["instance_info"]);
    let facts = Facts::from([
        ("type", instance["instance_type"].as_str().unwrap().to_owned()),
        ("instance id", instance["instance_id"].as_str().unwrap().to_owned()),
        ("logical cores", hardware["neuroncore_per_device_count"].to_string()),
        ("memory", hardware["neuron_device_memory_size"].to_string()),
        ("LNC", hardware["logical_neuroncore_config"].to_string()),
    ]);
    vec![facts; usize::try_from(hardware["neuron_device_count"].as_u64().unwrap()).unwrap()]
}
