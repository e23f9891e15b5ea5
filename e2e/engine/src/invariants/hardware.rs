//! A node's hardware as the invariants know it: by the catalog's row and by arithmetic. Of production's code only
//! [`candidate_sets`] is used. Asked by every invariant about sets.

use neuron_core::catalog::InstanceType;
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::{self, Resource};
use neuron_core::topology::{Policy, Topology};
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

    /// Every logical core.
    pub(crate) fn all_cores(self) -> CoreSet {
        self.cores_of(DeviceSet::run(0, self.model.devices))
    }

    /// The logical cores of these devices; an id that the node does not have has none.
    pub(crate) fn cores_of(self, devices: DeviceSet) -> CoreSet {
        let size = self.cores_per_device();
        let known = devices.iter().filter(|id| *id < self.model.devices);
        known.flat_map(|id| id * size..(id + 1) * size).collect()
    }

    /// The devices that have any of these logical cores.
    pub(crate) fn devices_of(self, cores: CoreSet) -> DeviceSet {
        cores.iter().map(|core| core / self.cores_per_device()).collect()
    }

    /// The devices of which every logical core is among these.
    pub(crate) fn whole_devices(self, cores: CoreSet) -> DeviceSet {
        let is_whole = |id: &u8| self.cores_of(DeviceSet::single(*id)).is_subset(cores);
        (0..self.model.devices).filter(is_whole).collect()
    }

    /// Whether the devices are a candidate set for as many.
    pub(crate) fn may_be_given(self, devices: DeviceSet) -> bool {
        // An id that the node does not have has no cores, and would be overlooked below.
        let cores = self.cores_of(devices);
        self.devices_of(cores) == devices
            && candidate_sets(self.model, self.lnc, Resource::Device, devices.len()).contains(&cores)
    }

    /// Whether the logical cores are a candidate set for as many.
    pub(crate) fn cores_may_be_given(self, cores: CoreSet) -> bool {
        candidate_sets(self.model, self.lnc, Resource::Core, cores.len()).contains(&cores)
    }

    fn cores_per_device(self) -> u8 {
        self.model.cores_per_device / self.lnc
    }
}

/// The candidate sets of a type for a count, as logical cores. This is the only place where the invariants ask production
/// what is allowed.
fn candidate_sets(model: &InstanceType, lnc: u8, resource: Resource, count: u32) -> Vec<CoreSet> {
    let Ok(topology) = Topology::of(model, lnc, Policy::Documented) else { return Vec::new() };
    match resource {
        Resource::Device => {
            topology.device_sets(count).iter().map(|devices| topology.cores_of(*devices)).collect()
        }
        Resource::Core => topology.core_sets(count).to_vec(),
    }
}

/// The cores and the devices that a container sees, by the variables that it printed; both may be empty.
///
/// # Errors
/// The variable that cannot be read, and why.
pub(crate) fn visible(report: &Report) -> Result<(CoreSet, DeviceSet), String> {
    let value = |name: &str| report.env.get(name).map_or("", String::as_str);
    let wrong = |name: &str, error: &dyn std::fmt::Display| format!("{name}: {error}");
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
