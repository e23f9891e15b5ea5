//! A node's hardware as the invariants know it: devices, cores and links of the catalog's row, and the documented rules, as
//! [`neuron_documented_rules`] has them. None of production's topology or placement and none of the row's `device_counts`
//! and `device_sets` is used, so that a mistake there is found. A type that a catalog file describes has no documented
//! rules: what its row declares decides. Asked by every invariant about sets.

use std::fmt::Display;

use neuron_core::catalog::{Catalog, Generation, InstanceType, SetRule};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names;
use neuron_documented_rules::{Node, Rules, are_consecutive};
use neuron_workload::Report;

use crate::outcome::PodOutcome;
use crate::scenario::Scenario;

/// The devices and logical cores of one node of a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hardware<'s> {
    model: &'s InstanceType,
    lnc: u8,
    judged_by: JudgedBy,
}

/// What says which sets of a type are candidate sets.
#[derive(Clone, Copy, Debug)]
enum JudgedBy {
    DocumentedRules,
    /// The row of a catalog file that describes a new type, or a known one otherwise.
    CatalogFile,
}

impl<'s> Hardware<'s> {
    /// The hardware of a node (`n1`, ..); none for a type in no catalog.
    pub(crate) fn of(scenario: &'s Scenario, node: &str) -> Option<Self> {
        let spec = scenario.nodes.get(scenario.place_of(node).ok()?)?;
        let model = scenario.catalog.types().find(&spec.instance_type)?;
        let is_documented = Catalog::embedded().find(&spec.instance_type) == Some(model);
        let judged_by = if is_documented { JudgedBy::DocumentedRules } else { JudgedBy::CatalogFile };
        Some(Self { model, lnc: spec.lnc.unwrap_or(model.default_lnc), judged_by })
    }

    /// Every device.
    fn all_devices(self) -> DeviceSet {
        (0..self.model.devices).collect()
    }

    /// Every logical core.
    pub(crate) fn all_cores(self) -> CoreSet {
        self.cores_of(self.all_devices())
    }

    /// Logical cores of one device.
    fn cores_per_device(self) -> u8 {
        self.model.cores_per_device / self.lnc
    }

    /// The logical cores of these devices; an id that the node does not have has none.
    pub(crate) fn cores_of(self, devices: DeviceSet) -> CoreSet {
        let size = self.cores_per_device();
        let known = devices.iter().filter(|id| self.all_devices().contains(*id));
        known.flat_map(|id| id * size..(id + 1) * size).collect()
    }

    /// The devices that have any of these logical cores.
    pub(crate) fn devices_of(self, cores: CoreSet) -> DeviceSet {
        cores.iter().map(|core| core / self.cores_per_device()).collect()
    }

    /// The devices of which every logical core is among these.
    pub(crate) fn whole_devices(self, cores: CoreSet) -> DeviceSet {
        let is_whole = |id: &u8| self.cores_of(DeviceSet::single(*id)).is_subset(cores);
        self.all_devices().iter().filter(is_whole).collect()
    }

    /// Whether the devices are a candidate set for as many, under policy `documented`.
    pub(crate) fn is_device_set(self, devices: DeviceSet) -> bool {
        let ids: Vec<u8> = devices.iter().collect();
        let is_candidate = match self.judged_by {
            JudgedBy::DocumentedRules => self.node().is_device_set(&ids),
            JudgedBy::CatalogFile => self.is_declared(&ids),
        };
        devices.is_subset(self.all_devices()) && is_candidate
    }

    /// Whether the logical cores are a candidate set for as many, under policy `documented`.
    pub(crate) fn is_core_set(self, cores: CoreSet) -> bool {
        let ids: Vec<u8> = cores.iter().collect();
        let is_candidate = match self.judged_by {
            JudgedBy::DocumentedRules => self.node().is_core_set(&ids),
            JudgedBy::CatalogFile => are_consecutive(&ids) && self.follows_declared(cores),
        };
        cores.is_subset(self.all_cores()) && is_candidate
    }

    /// The node as the documented rules see it.
    fn node(self) -> Node {
        documented_node(self.model, self.lnc)
    }

    /// Whether the file's row declares these devices: one, all, or as many as it says by its rule.
    fn is_declared(self, ids: &[u8]) -> bool {
        let is_supported = self.model.device_counts.iter().any(|known| usize::from(*known) == ids.len());
        let first = ids.first().copied().map_or(0, usize::from);
        let follows_rule = match self.model.device_sets {
            SetRule::One | SetRule::Whole => false,
            SetRule::Run => are_consecutive(ids) && self.node().are_linked(ids),
            SetRule::Rows => are_consecutive(ids) && first.is_multiple_of(ids.len()),
        };
        let is_always_valid = ids.len() == 1 || ids.len() == usize::from(self.model.devices);
        is_always_valid || (is_supported && follows_rule)
    }

    /// Whether consecutive cores are inside one device, or on devices that the file's row declares.
    fn follows_declared(self, cores: CoreSet) -> bool {
        let devices = self.devices_of(cores);
        if cores.len() <= u32::from(self.cores_per_device()) {
            return devices.len() == 1;
        }
        let ids: Vec<u8> = devices.iter().collect();
        let is_whole_set = cores == self.cores_of(devices) && self.is_declared(&ids);
        match self.model.generation {
            // Runs may begin and end in the middle of a device.
            Generation::Inf1 | Generation::Inf2 => is_whole_set || self.node().are_linked(&ids),
            Generation::Trn1 | Generation::Trn2 | Generation::Trn3 => is_whole_set,
        }
    }
}

/// A node of this type and LNC as the documented rules see it, under policy `documented`.
pub fn documented_node(model: &InstanceType, lnc: u8) -> Node {
    let rules = match model.generation {
        Generation::Inf1 | Generation::Inf2 => Rules::Inf { linked: false },
        Generation::Trn1 | Generation::Trn2 | Generation::Trn3 => Rules::Trn { linked: false, pairs: false },
    };
    let (devices, cores_per_device) = (model.devices, model.cores_per_device / lnc);
    Node { rules, devices, cores_per_device, links: model.links.clone() }
}

/// The cores and the devices that a container sees, by the variables that it printed; both may be empty.
///
/// # Errors
/// The variable that cannot be read, and why.
pub(crate) fn visible(report: &Report) -> Result<(CoreSet, DeviceSet), String> {
    let value = |name: &str| report.env.get(name).map_or("", String::as_str);
    let wrong = |name: &str, error: &dyn Display| format!("{name}: {error}");
    let cores = value(names::VISIBLE_CORES).parse().map_err(|error| wrong(names::VISIBLE_CORES, &error))?;
    let devices =
        value(names::VISIBLE_DEVICES).parse().map_err(|error| wrong(names::VISIBLE_DEVICES, &error))?;
    Ok((cores, devices))
}

/// The logical cores that a container sees, under either name; none where its variables cannot be read.
pub(crate) fn seen_by(report: &Report, hardware: Hardware) -> CoreSet {
    visible(report).map_or(CoreSet::EMPTY, |(cores, devices)| cores.union(hardware.cores_of(devices)))
}

/// The logical cores that the containers of a pod see, under either name.
pub(crate) fn held_by(pod: &PodOutcome, hardware: Hardware) -> CoreSet {
    let sets = pod.containers.values().map(|report| seen_by(report, hardware));
    sets.fold(CoreSet::EMPTY, CoreSet::union)
}

#[cfg(test)]
mod tests {
    use neuron_core::topology::{Policy, Topology};
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_wrong_row_of_the_catalog_is_found() {
        let mut model = Catalog::embedded().find("trn1.32xlarge").unwrap().clone();
        model.device_counts.push(2);
        model.device_sets = SetRule::Run;
        let hardware = |judged_by| Hardware { model: &model, lnc: 1, judged_by };
        let pair = DeviceSet::from_bits(0b11);
        assert!(!hardware(JudgedBy::DocumentedRules).is_device_set(pair));
        assert!(!hardware(JudgedBy::DocumentedRules).is_core_set(CoreSet::run(0, 4)));
        // The same row in a file describes a type that only its owner knows.
        assert!(hardware(JudgedBy::CatalogFile).is_device_set(pair));
        assert!(hardware(JudgedBy::CatalogFile).is_core_set(CoreSet::run(0, 4)));
    }

    /// A file's row that says what the program's does allows neither more nor less than production.
    #[rstest]
    fn a_declared_row_allows_what_production_does(#[values(1, 2)] lnc: u8) {
        for model in Catalog::embedded().types() {
            let Ok(topology) = Topology::of(model, lnc, Policy::Documented) else { continue };
            let hardware = Hardware { model, lnc, judged_by: JudgedBy::CatalogFile };
            for members in 1..1u64 << model.devices {
                let devices = DeviceSet::from_bits(members);
                let production = topology.device_sets(devices.len()).contains(&devices);
                assert_eq!(hardware.is_device_set(devices), production, "{} {devices}", model.name);
            }
            let cores = (0..128).flat_map(|first| (1..=128 - first).map(move |count| (first, count)));
            for (first, count) in cores {
                let cores = CoreSet::run(first, count);
                let production = topology.core_sets(cores.len()).contains(&cores);
                assert_eq!(hardware.is_core_set(cores), production, "{} {cores}", model.name);
            }
        }
    }
}
