//! A node's hardware, as the documented rules see it: devices, cores and links of the catalog's row, none of production's
//! topology or placement. Asked by everything here that judges.

use std::collections::BTreeSet;

use fake_neuron::{Blueprint, MachineSpec};
use neuron_core::catalog::{Catalog, InstanceType};
use neuron_documented_rules::{Node, are_consecutive};
use neuron_e2e_engine::invariants::documented_node;
use simulated_cluster::plan::NodePlan;
use simulated_cluster::suite::Units;

/// What a plan's node is. Its text is an instance type, or one with an LNC that is not its default, as `trn2.48xlarge:lnc1`.
pub(crate) struct Machine {
    pub(crate) model: &'static InstanceType,
    /// Physical cores in a logical one, where the operator has set it.
    pub(crate) lnc: Option<u8>,
    rules: Node,
}

impl Machine {
    /// The machine of a node.
    ///
    /// # Errors
    /// There is no such type, or it cannot have such an LNC.
    pub(crate) fn of(node: &NodePlan) -> Result<Self, String> {
        let (name, lnc) = match node.machine.split_once(":lnc") {
            Some((name, lnc)) => {
                let wrong = || format!("{} has no number after :lnc", node.machine);
                (name, Some(lnc.parse().map_err(|_| wrong())?))
            }
            None => (node.machine.as_str(), None),
        };
        Self::spec(name, lnc).check(Catalog::embedded()).map_err(|error| error.to_string())?;
        let model =
            Catalog::embedded().find(name).ok_or_else(|| format!("there is no instance type {name}"))?;
        let rules = documented_node(model, lnc.unwrap_or(model.default_lnc));
        Ok(Self { model, lnc, rules })
    }

    /// Its files, on a node of this name.
    ///
    /// # Errors
    /// There can be no such files.
    pub(crate) fn blueprint(&self, node: &str) -> Result<Blueprint, String> {
        let spec =
            MachineSpec { instance_id: Some(format!("i-{node}")), ..Self::spec(&self.model.name, self.lnc) };
        Blueprint::of(&spec, Catalog::embedded()).map_err(|error| error.to_string())
    }

    fn spec(name: &str, lnc: Option<u8>) -> MachineSpec {
        MachineSpec { instance_type: name.to_owned(), lnc, instance_id: None }
    }

    /// Number of devices.
    pub(crate) fn devices(&self) -> u8 {
        self.rules.devices
    }

    /// Number of logical cores.
    pub(crate) fn cores(&self) -> u8 {
        self.rules.devices * self.rules.cores_per_device
    }

    /// The logical cores of a device; none of one that there is not.
    pub(crate) fn cores_of(&self, device: u32) -> Units {
        let size = u32::from(self.rules.cores_per_device);
        if device < u32::from(self.devices()) {
            (device * size..(device + 1) * size).collect()
        } else {
            Units::new()
        }
    }

    /// The devices that have any of these cores.
    pub(crate) fn devices_of(&self, cores: &Units) -> BTreeSet<u32> {
        cores.iter().map(|core| core / u32::from(self.rules.cores_per_device)).collect()
    }

    /// Every candidate set of so many devices, as cores.
    pub(crate) fn device_sets(&self, count: u32) -> Vec<Units> {
        let sets = runs(self.devices(), count).filter(|ids| self.rules.is_device_set(ids));
        sets.map(|ids| ids.into_iter().flat_map(|id| self.cores_of(id.into())).collect()).collect()
    }

    /// Every candidate set of so many cores.
    pub(crate) fn core_sets(&self, count: u32) -> Vec<Units> {
        let sets = runs(self.cores(), count).filter(|ids| self.rules.is_core_set(ids));
        sets.map(|ids| ids.into_iter().map(u32::from).collect()).collect()
    }

    /// Whether these cores are a candidate set, of devices or of cores.
    pub(crate) fn is_candidate(&self, cores: &Units, as_devices: bool) -> bool {
        let ids = |numbers: &BTreeSet<u32>| {
            numbers.iter().filter_map(|id| u8::try_from(*id).ok()).collect::<Vec<_>>()
        };
        if as_devices {
            self.rules.is_device_set(&ids(&self.devices_of(cores)))
        } else {
            self.rules.is_core_set(&ids(cores))
        }
    }

    /// Counts of devices that the type gives.
    pub(crate) fn device_counts(&self) -> Vec<u32> {
        (1..=u32::from(self.devices())).filter(|count| !self.device_sets(*count).is_empty()).collect()
    }

    /// Counts of cores that the type gives.
    pub(crate) fn core_counts(&self) -> Vec<u32> {
        (1..=u32::from(self.cores())).filter(|count| !self.core_sets(*count).is_empty()).collect()
    }
}

/// Every run of so many consecutive ids below `end`: under policy `documented` all candidate sets are such runs.
fn runs(end: u8, count: u32) -> impl Iterator<Item = Vec<u8>> {
    let count = u8::try_from(count).unwrap_or(u8::MAX);
    let last = end.checked_sub(count).filter(|_| count > 0);
    let runs =
        last.into_iter().flat_map(move |last| (0..=last).map(move |first| (first..first + count).collect()));
    runs.inspect(|ids: &Vec<u8>| debug_assert!(are_consecutive(ids)))
}
