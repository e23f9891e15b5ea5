//! The candidate sets a second time: the rules of docs/architecture.md §4 and docs/reference/neuron.md §3.1, §3.2 written
//! down as they are documented, asked of every set of ids one by one. Deliberately dumb, and without any code of production:
//! what the tests of topology and placement compare production with. Of the catalog file only devices, cores and links are
//! read, not its `device_counts` and `device_sets`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;

/// One set of device ids or of logical core ids, ascending.
pub(crate) type Ids = Vec<u8>;

/// A node as the rules see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) rules: Rules,
    pub(crate) devices: u8,
    /// Logical cores of one device.
    pub(crate) cores_per_device: u8,
    /// The ids that each device is linked to; index is the device id.
    pub(crate) links: Vec<Ids>,
}

/// Which rules hold for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rules {
    /// Inferentia and Inferentia2.
    Inf { linked: bool },
    /// Trainium and Trainium2 in a torus of 16, and Trainium3 with 16 devices, which follows the same sets until AWS
    /// documents its own. `pairs`: whether the runtime takes two linked devices, too.
    Trn { linked: bool, pairs: bool },
    /// A type whose hardware only the node's report describes.
    Reported,
}

/// The candidate sets of a node by count, each list ascending.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    /// Logical cores of one device.
    pub(crate) cores_per_device: u8,
    pub(crate) devices: BTreeMap<u32, Vec<Ids>>,
    pub(crate) cores: BTreeMap<u32, Vec<Ids>>,
}

const ROWS: [[u8; 4]; 4] = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]];
const HALVES: [[u8; 8]; 2] = [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]];

/// Every instance type of the catalog file with each LNC that it can run at: 1, and 2 on Trainium2 and Trainium3.
pub(crate) fn every_type() -> Vec<(String, u8)> {
    let sizes = |row: &Value| {
        let name = row["instance_type"].as_str().unwrap().to_owned();
        let generation = row["generation"].as_str().unwrap();
        let sizes: &[u8] = if ["trn2", "trn3"].contains(&generation) { &[1, 2] } else { &[1] };
        sizes.iter().map(|&lnc| (name.clone(), lnc)).collect::<Vec<_>>()
    };
    catalog().iter().flat_map(sizes).collect()
}

/// A node of an instance type at an LNC, under policy `linked` or `documented`.
pub(crate) fn node(instance_type: &str, lnc: u8, linked: bool) -> Node {
    let row = catalog().iter().find(|row| row["instance_type"] == instance_type).unwrap();
    let number = |value: &Value| value.as_u64().unwrap() as u8;
    let numbers = |value: &Value| value.as_array().unwrap().iter().map(number).collect();
    let rules = match row["generation"].as_str().unwrap() {
        "inf1" | "inf2" => Rules::Inf { linked },
        "trn2" => Rules::Trn { linked, pairs: linked },
        "trn1" | "trn3" => Rules::Trn { linked, pairs: false },
        #[expect(clippy::panic, reason = "a test of a new generation needs its rules here")]
        other => panic!("no rules for generation {other}"),
    };
    Node {
        rules,
        devices: number(&row["devices"]),
        cores_per_device: number(&row["cores_per_device"]) / lnc,
        links: row["links"].as_array().unwrap().iter().map(numbers).collect(),
    }
}

fn catalog() -> &'static [Value] {
    static FILE: LazyLock<Value> =
        LazyLock::new(|| serde_json::from_str(include_str!("../../data/instance-types.json")).unwrap());
    FILE["types"].as_array().unwrap()
}

/// The node's candidate sets; found once for each node of a test run.
pub(crate) fn sets(node: &Node) -> Arc<Sets> {
    static FOUND: LazyLock<Mutex<HashMap<Node, Arc<Sets>>>> = LazyLock::new(Mutex::default);
    let mut found = FOUND.lock().unwrap();
    Arc::clone(found.entry(node.clone()).or_insert_with(|| Arc::new(Sets::of(node))))
}

impl Sets {
    fn of(node: &Node) -> Sets {
        let mut sets = Sets { cores_per_device: node.cores_per_device, ..Sets::default() };
        for members in 1u32..1 << node.devices {
            let ids: Ids = (0..node.devices).filter(|id| members >> id & 1 == 1).collect();
            if node.is_device_set(&ids) {
                sets.devices.entry(ids.len() as u32).or_default().push(ids);
            }
        }
        let cores = node.devices * node.cores_per_device;
        // Cores of a set are consecutive ids, whatever the type.
        for first in 0..cores {
            for last in first..cores {
                let ids: Ids = (first..=last).collect();
                if node.is_core_set(&ids) {
                    sets.cores.entry(ids.len() as u32).or_default().push(ids);
                }
            }
        }
        sets.devices.values_mut().chain(sets.cores.values_mut()).for_each(|sets| sets.sort());
        sets
    }

    /// Candidate sets of `count` devices; none for a count that the type does not support.
    pub(crate) fn devices(&self, count: u32) -> &[Ids] {
        self.devices.get(&count).map(Vec::as_slice).unwrap_or_default()
    }

    /// Candidate sets of `count` logical cores; none for a count that the type does not support.
    pub(crate) fn cores(&self, count: u32) -> &[Ids] {
        self.cores.get(&count).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Node {
    fn is_device_set(&self, ids: &[u8]) -> bool {
        // One device and all devices are always valid.
        if ids.len() == 1 || ids.len() == usize::from(self.devices) {
            return true;
        }
        match self.rules {
            // Neighbours in a row; a ring's wrap has a gap in its ids.
            Rules::Inf { linked: false } | Rules::Reported => are_consecutive(ids) && self.are_linked(ids),
            Rules::Inf { linked: true } => self.are_linked(ids),
            // trn3e gives 1 or all of its 4.
            Rules::Trn { .. } if self.devices != 16 => false,
            Rules::Trn { linked: false, .. } => {
                ROWS.iter().any(|row| row == ids) || HALVES.iter().any(|half| half == ids)
            }
            Rules::Trn { linked: true, pairs } => {
                ([4, 8].contains(&ids.len()) || (pairs && ids.len() == 2)) && self.are_linked(ids)
            }
        }
    }

    /// Whether consecutive core ids are a candidate set.
    fn is_core_set(&self, ids: &[u8]) -> bool {
        // One core and all cores are always valid.
        if ids.len() == 1 || ids.len() == usize::from(self.devices * self.cores_per_device) {
            return true;
        }
        let devices: BTreeSet<u8> = ids.iter().map(|core| core / self.cores_per_device).collect();
        let devices: Ids = devices.into_iter().collect();
        if ids.len() <= usize::from(self.cores_per_device) {
            // Up to one device's cores stay inside one device.
            return devices.len() == 1;
        }
        match self.rules {
            // May start and end mid-device.
            Rules::Inf { .. } => self.are_linked(&devices),
            // Whole devices by the device rule.
            Rules::Trn { .. } | Rules::Reported => {
                let are_whole = ids.len() == devices.len() * usize::from(self.cores_per_device);
                are_whole && self.is_device_set(&devices)
            }
        }
    }

    /// Whether every device reaches every other over links inside the set.
    fn are_linked(&self, ids: &[u8]) -> bool {
        let mut reached = vec![ids[0]];
        let mut next = 0;
        while let Some(&device) = reached.get(next) {
            for other in &self.links[usize::from(device)] {
                if ids.contains(other) && !reached.contains(other) {
                    reached.push(*other);
                }
            }
            next += 1;
        }
        reached.len() == ids.len()
    }
}

fn are_consecutive(ids: &[u8]) -> bool {
    ids.windows(2).all(|pair| pair[1] == pair[0] + 1)
}
