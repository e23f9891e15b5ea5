//! The candidate sets a second time: the rules of docs/architecture.md §4 and docs/reference/neuron.md §3.1, §3.2 written
//! down as they are documented, asked of one set of ids at a time. Deliberately dumb, and without any code of production or
//! the `device_counts` and `device_sets` of its catalog: devices, cores and links alone decide. The tests of neuron-core
//! compare production with it, and the invariants of neuron-e2e-engine judge outcomes by it.
//!
//! ```
//! use neuron_documented_rules::{Node, Rules};
//!
//! let ring = (0..6u8).map(|id| vec![(id + 5) % 6, (id + 1) % 6]).collect();
//! let rules = Rules::Inf { linked: false };
//! let node = Node { rules, devices: 6, cores_per_device: 2, links: ring };
//! assert!(node.is_device_set(&[2, 3]));
//! assert!(!node.is_device_set(&[0, 5]), "linked, but not consecutive");
//! ```

use std::collections::BTreeSet;

/// One set of device ids or of logical core ids, ascending.
pub type Ids = Vec<u8>;

/// A node as the rules see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The rules that decide which sets of it are candidate sets.
    pub rules: Rules,
    /// Number of devices; their ids count from 0.
    pub devices: u8,
    /// Logical cores of one device.
    pub cores_per_device: u8,
    /// The ids that each device is linked to; index is the device id.
    pub links: Vec<Ids>,
}

/// Which rules hold for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rules {
    /// Inferentia and Inferentia2.
    Inf {
        /// Policy `linked`, not `documented`.
        linked: bool,
    },
    /// Trainium and Trainium2 in a torus of 16, and Trainium3 with 16 devices, which follows the same sets until AWS
    /// documents its own.
    Trn {
        /// Policy `linked`, not `documented`.
        linked: bool,
        /// Whether the runtime takes two linked devices, too.
        pairs: bool,
    },
    /// A type whose hardware only the node's report describes.
    Reported,
}

const ROWS: [[u8; 4]; 4] = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]];
const HALVES: [[u8; 8]; 2] = [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]];

impl Node {
    /// Whether these devices of the node, ascending, are a candidate set for as many.
    pub fn is_device_set(&self, ids: &[u8]) -> bool {
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

    /// Whether these logical cores of the node, ascending, are a candidate set for as many.
    pub fn is_core_set(&self, ids: &[u8]) -> bool {
        // Cores of a set are consecutive ids, whatever the type.
        if !are_consecutive(ids) {
            return false;
        }
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
    pub fn are_linked(&self, ids: &[u8]) -> bool {
        let mut reached: Ids = ids.iter().take(1).copied().collect();
        let mut next = 0;
        while let Some(&device) = reached.get(next) {
            for other in self.links.get(usize::from(device)).into_iter().flatten() {
                if ids.contains(other) && !reached.contains(other) {
                    reached.push(*other);
                }
            }
            next += 1;
        }
        reached.len() == ids.len()
    }
}

/// Whether each id is the next after the one before it.
pub fn are_consecutive(ids: &[u8]) -> bool {
    ids.windows(2).all(|pair| matches!(pair, [one, next] if *next == one + 1))
}
