//! All candidate sets of a node by the naive definition, [`neuron_documented_rules`]: every set of ids asked of it, one by
//! one. What the tests of topology and placement compare production with. Of the catalog file only devices, cores and links
//! are read, not its `device_counts` and `device_sets`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

pub(crate) use neuron_documented_rules::{Ids, Node, Rules};
use serde_json::Value;

/// The candidate sets of a node by count, each list ascending.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    /// Logical cores of one device.
    pub(crate) cores_per_device: u8,
    pub(crate) devices: BTreeMap<u32, Vec<Ids>>,
    pub(crate) cores: BTreeMap<u32, Vec<Ids>>,
}

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
        // No other sets are asked about: the rules want consecutive ids, whatever the type.
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
