//! A node's hardware, as the documented rules see it: devices, cores and links of the catalog's row, none of production's
//! topology or placement. Asked by everything here that judges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use fake_neuron::{Blueprint, MachineSpec};
use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::report::{DeviceReport, Health, NodeReport, REPORT_VERSION};
use neuron_documented_rules::Node;
use neuron_e2e_engine::invariants::documented_node;
use simulated_cluster::plan::NodePlan;
use simulated_cluster::suite::Units;

/// What a plan's node is. Its text is an instance type, or one with an LNC that is not its default, as `trn2.48xlarge:lnc1`.
pub(crate) struct Machine {
    pub(crate) model: &'static InstanceType,
    /// Physical cores in a logical one, where the operator has set it.
    pub(crate) lnc: Option<u8>,
    rules: Node,
    /// Every candidate set of devices, as cores, by how many devices it has.
    device_sets: BTreeMap<u32, Vec<Units>>,
    /// Every candidate set of cores, by how many it has.
    core_sets: BTreeMap<u32, Vec<Units>>,
}

/// Machines that were asked for before, by their text: a naive look at every set takes long.
static KNOWN: LazyLock<Mutex<BTreeMap<String, Arc<Machine>>>> = LazyLock::new(Mutex::default);

impl Machine {
    /// The machine of a node.
    ///
    /// # Errors
    /// There is no such type, or it cannot have such an LNC.
    pub(crate) fn of(node: &NodePlan) -> Result<Arc<Self>, String> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = known.get(&node.machine) {
            return Ok(Arc::clone(machine));
        }
        let machine = Arc::new(Self::new(node)?);
        known.insert(node.machine.clone(), Arc::clone(&machine));
        Ok(machine)
    }

    fn new(node: &NodePlan) -> Result<Self, String> {
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
        let cores = rules.devices * rules.cores_per_device;
        let device_sets = sets(rules.devices, |ids| rules.is_device_set(ids));
        let core_sets = sets(cores, |ids| rules.is_core_set(ids));
        let mut machine = Self { model, lnc, rules, device_sets: BTreeMap::new(), core_sets };
        let as_cores = |ids: &Units| ids.iter().flat_map(|id| machine.cores_of(*id)).collect();
        let device_sets =
            device_sets.iter().map(|(count, sets)| (*count, sets.iter().map(as_cores).collect()));
        machine.device_sets = device_sets.collect();
        Ok(machine)
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

    /// A report that could be true: nobody holds anything, and the first device is unhealthy.
    pub(crate) fn wrong_report(&self) -> String {
        let device = |(id, links): (usize, &Vec<u8>)| {
            let health = if id == 0 { Health::Unhealthy } else { Health::Healthy };
            // A node has at most 64 devices.
            DeviceReport { id: id as u8, links: links.iter().copied().collect(), health, reason: None }
        };
        let report = NodeReport {
            v: REPORT_VERSION,
            time: None,
            rules: None,
            instance_type: self.model.name.clone(),
            lnc: self.lnc.unwrap_or(self.model.default_lnc),
            cores_per_device: None,
            devices: self.model.links.iter().enumerate().map(device).collect(),
            holders: Vec::new(),
        };
        report.to_json()
    }

    fn spec(name: &str, lnc: Option<u8>) -> MachineSpec {
        MachineSpec { instance_type: name.to_owned(), lnc, instance_id: None, driver: None }
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
    pub(crate) fn device_sets(&self, count: u32) -> &[Units] {
        self.device_sets.get(&count).map(Vec::as_slice).unwrap_or_default()
    }

    /// Every candidate set of so many cores.
    pub(crate) fn core_sets(&self, count: u32) -> &[Units] {
        self.core_sets.get(&count).map(Vec::as_slice).unwrap_or_default()
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

    /// Whether the type gives so many devices or cores to a container.
    pub(crate) fn gives(&self, count: u32, as_devices: bool) -> bool {
        let sets = if as_devices { self.device_sets(count) } else { self.core_sets(count) };
        !sets.is_empty()
    }

    /// Counts of devices that the type gives.
    pub(crate) fn device_counts(&self) -> Vec<u32> {
        self.device_sets.keys().copied().collect()
    }

    /// Counts of cores that the type gives.
    pub(crate) fn core_counts(&self) -> Vec<u32> {
        self.core_sets.keys().copied().collect()
    }
}

/// The candidate sets of ids below `end`, by how many ids they have: under policy `documented` all are runs of consecutive ids.
fn sets(end: u8, is_candidate: impl Fn(&[u8]) -> bool) -> BTreeMap<u32, Vec<Units>> {
    let mut sets: BTreeMap<u32, Vec<Units>> = BTreeMap::new();
    for first in 0..end {
        for after in first + 1..=end {
            let ids: Vec<u8> = (first..after).collect();
            if is_candidate(&ids) {
                let set = ids.iter().copied().map(u32::from).collect();
                sets.entry(u32::from(after - first)).or_default().push(set);
            }
        }
    }
    sets
}
