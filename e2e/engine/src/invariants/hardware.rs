//! A node's hardware as the invariants know it: the catalog's row, and the documented rules asked of one set at a time. None
//! of production's topology or placement is used, so that a mistake there is found. Asked by every invariant about sets.

use std::fmt::Display;

use neuron_core::catalog::{Generation, InstanceType, SetRule};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names;
use neuron_workload::Report;

use crate::outcome::PodOutcome;
use crate::scenario::Scenario;

/// The devices and logical cores of one node of a scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hardware<'s> {
    model: &'s InstanceType,
    lnc: u8,
}

impl<'s> Hardware<'s> {
    /// Of a node, `n1` first; none where the type is in no catalog and only a report describes it.
    pub(crate) fn of(scenario: &'s Scenario, node: &str) -> Option<Self> {
        let spec = scenario.nodes.get(scenario.place_of(node).ok()?)?;
        let model = scenario.catalog.types().find(&spec.instance_type)?;
        Some(Self { model, lnc: spec.lnc.unwrap_or(model.default_lnc) })
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

    /// Whether the devices are a candidate set for as many, under policy `documented`: one, all, or by the type's rule.
    pub(crate) fn is_device_set(self, devices: DeviceSet) -> bool {
        let (count, first) = (devices.len(), u32::from(devices.first().unwrap_or_default()));
        let is_supported = self.model.device_counts.iter().any(|known| u32::from(*known) == count);
        let follows_rule = match self.model.device_sets {
            SetRule::One | SetRule::Whole => false,
            // Neighbours; a ring's wrap has a gap in its ids.
            SetRule::Run => are_consecutive(devices.iter()) && self.are_linked(devices),
            // Rows, halves: consecutive ids that begin at a multiple of the count.
            SetRule::Rows => are_consecutive(devices.iter()) && first.is_multiple_of(count),
        };
        let is_always_valid = count == 1 || devices == self.all_devices();
        devices.is_subset(self.all_devices()) && (is_always_valid || (is_supported && follows_rule))
    }

    /// Whether the logical cores are a candidate set for as many: consecutive ids inside one device, or more than it has.
    pub(crate) fn is_core_set(self, cores: CoreSet) -> bool {
        let devices = self.devices_of(cores);
        if !cores.is_subset(self.all_cores()) || !are_consecutive(cores.iter()) {
            return false;
        }
        if cores.len() <= u32::from(self.cores_per_device()) {
            return devices.len() == 1;
        }
        let is_whole_set = cores == self.cores_of(devices) && self.is_device_set(devices);
        match self.model.generation {
            // Runs may begin and end in the middle of a device.
            Generation::Inf1 | Generation::Inf2 => is_whole_set || self.are_linked(devices),
            Generation::Trn1 | Generation::Trn2 | Generation::Trn3 => is_whole_set,
        }
    }

    /// Whether every device reaches every other over links inside the set.
    fn are_linked(self, devices: DeviceSet) -> bool {
        let Some(first) = devices.first() else { return false };
        let mut reached = vec![first];
        let mut next = 0;
        while let Some(device) = reached.get(next) {
            let links = self.model.links.get(usize::from(*device)).map_or(&[][..], Vec::as_slice);
            let new = links.iter().filter(|id| devices.contains(**id) && !reached.contains(id));
            let new: Vec<u8> = new.copied().collect();
            reached.extend(new);
            next += 1;
        }
        reached.len() == devices.iter().count()
    }
}

fn are_consecutive(ids: impl Iterator<Item = u8>) -> bool {
    let ids: Vec<u8> = ids.collect();
    ids.windows(2).all(|pair| matches!(pair, [one, next] if one + 1 == *next))
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
    use neuron_core::catalog::Catalog;
    use neuron_core::topology::{Policy, Topology};
    use rstest::rstest;

    use super::*;

    /// Where the two definitions differ one of them is wrong: a scenario would fail for its oracle's mistake.
    #[rstest]
    fn both_definitions_allow_the_same_sets(#[values(1, 2)] lnc: u8) {
        for model in Catalog::embedded().types() {
            let Ok(topology) = Topology::of(model, lnc, Policy::Documented) else { continue };
            let hardware = Hardware { model, lnc };
            for members in 1..1u64 << model.devices {
                let devices = DeviceSet::from_bits(members);
                let production = topology.device_sets(devices.len()).contains(&devices);
                assert_eq!(hardware.is_device_set(devices), production, "{} {devices}", model.name);
            }
            for (first, count) in
                (0..128).flat_map(|first| (1..=128 - first).map(move |count| (first, count)))
            {
                let cores = CoreSet::run(first, count);
                let production = topology.core_sets(cores.len()).contains(&cores);
                assert_eq!(hardware.is_core_set(cores), production, "{} {cores}", model.name);
            }
        }
    }
}
