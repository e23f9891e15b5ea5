//! Where each device sits on the PCI bus and which NUMA node it is next to: what neuron-ls prints and the ioctls answer. Data
//! (`fake-neuron/data/pci-addresses.json`, from docs/reference/neuron.md §2) for the types of the catalog; made up for others.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use neuron_core::catalog::Catalog;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny};

/// Where a device sits on the PCI bus. Prints as `0000:00:1e.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// 16 bits on x86-64.
    pub domain: u32,
    /// 0 to 255.
    pub bus: u8,
    /// 0 to 31.
    pub slot: u8,
    /// 0 to 7.
    pub function: u8,
}

/// A device's place in its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it sits on the PCI bus.
    pub address: PciAddress,
    /// The NUMA node it is next to; none where the host has none, which tools print as -1.
    pub numa_node: Option<u8>,
    /// The CPUs of that node as Linux lists them, such as `0-47,96-143`; every CPU where the host has no node, empty where the
    /// number of CPUs is not known.
    pub cpus: String,
}

/// The place of each of `devices` devices of an instance type, which may be an alias; index is the device id.
///
/// A type without a row counts down from slot 1f of bus 0 as Inf1 does, or has a bus for each device where slots do not suffice:
/// such addresses are made up, but the same each time.
pub fn places(instance_type: &str, devices: u8) -> Vec<Place> {
    let model = Catalog::embedded().find(instance_type);
    let name = model.map_or(instance_type, |model| model.name.as_str());
    let row = FILE.types.iter().find(|row| row.instance_type == name);
    let known = row.filter(|row| row.addresses.len() == usize::from(devices));
    let nodes = known.map_or(0, |row| row.numa_nodes.iter().max().map_or(0, |last| u32::from(*last) + 1));
    (0..devices)
        .map(|device| {
            let index = usize::from(device);
            let address = known.and_then(|row| row.addresses.get(index).copied());
            let numa_node = known.and_then(|row| row.numa_nodes.get(index).copied());
            Place {
                address: address.unwrap_or_else(|| made_up(device, devices)),
                numa_node,
                cpus: model.map(|model| cpus(model.vcpus, numa_node, nodes)).unwrap_or_default(),
            }
        })
        .collect()
}

/// The CPUs of one of `nodes` NUMA nodes: first one hyperthread of each core, then the other. So print trn2.3xlarge (one node),
/// trn1.32xlarge and trn2.48xlarge (two) and inf2.48xlarge (four).
fn cpus(vcpus: u32, node: Option<u8>, nodes: u32) -> String {
    match node.map(u32::from) {
        Some(node) if nodes > 1 => {
            let (half, share) = (vcpus / 2, vcpus / 2 / nodes);
            let (first, last) = (node * share, (node + 1) * share - 1);
            format!("{first}-{last},{}-{}", half + first, half + last)
        }
        _ => format!("0-{}", vcpus.saturating_sub(1)),
    }
}

fn made_up(device: u8, devices: u8) -> PciAddress {
    const SLOTS: u8 = 0x20;
    // The first slots are the host's own.
    const FREE_SLOTS: u8 = SLOTS - 4;
    if devices <= FREE_SLOTS {
        return PciAddress { domain: 0, bus: 0, slot: SLOTS - devices + device, function: 0 };
    }
    PciAddress { domain: 0, bus: 0x10 + device, slot: 0, function: 0 }
}

static FILE: LazyLock<File> = LazyLock::new(|| {
    // The text is part of the program and a test reads it, so the default never happens.
    serde_json::from_str(include_str!("../../data/pci-addresses.json")).unwrap_or_default()
});

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "_about")]
    _about: IgnoredAny,
    types: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    instance_type: String,
    addresses: Vec<PciAddress>,
    #[serde(default)]
    numa_nodes: Vec<u8>,
    #[serde(rename = "confidence")]
    _confidence: String,
    #[serde(rename = "note")]
    _note: String,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciAddress { domain, bus, slot, function } = self;
        write!(formatter, "{domain:04x}:{bus:02x}:{slot:02x}.{function:x}")
    }
}

impl FromStr for PciAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<PciAddress, String> {
        let parsed = || {
            let (domain, rest) = text.split_once(':')?;
            let (bus, rest) = rest.split_once(':')?;
            let (slot, function) = rest.split_once('.')?;
            Some(PciAddress {
                domain: u32::from_str_radix(domain, 16).ok()?,
                bus: u8::from_str_radix(bus, 16).ok()?,
                slot: u8::from_str_radix(slot, 16).ok().filter(|slot| *slot < 32)?,
                function: u8::from_str_radix(function, 16).ok().filter(|function| *function < 8)?,
            })
        };
        parsed().ok_or_else(|| format!("{text:?} is no PCI address: write it like 0000:00:1e.0"))
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PciAddress, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
