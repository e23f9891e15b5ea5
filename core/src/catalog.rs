//! Every instance type with Neuron devices: shape, allowed counts and the grade of evidence. Data, not code:
//! `core/data/instance-types.json` is embedded. Read by [`crate::topology`], fake-neuron and the tables.

use std::sync::OnceLock;

use serde::Deserialize;

/// Every known instance type.
#[derive(Clone, Debug)]
pub struct Catalog {
    types: Vec<InstanceType>,
    names: Vec<KnownName>,
}

/// One instance type: one row of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceType {
    /// Name, such as `trn1.32xlarge`.
    #[serde(rename = "instance_type")]
    pub name: String,
    /// Family of the devices.
    pub generation: Generation,
    /// Number of devices, 1 to 64; their ids count from 0.
    pub devices: u8,
    /// Physical cores of one device.
    pub cores_per_device: u8,
    /// Physical cores in one logical core unless the node is set up otherwise: 1 or 2.
    pub default_lnc: u8,
    /// Memory of one device in bytes.
    pub device_memory_bytes: u64,
    /// How the devices are linked.
    #[serde(rename = "topology")]
    pub shape: Shape,
    /// Physical reachability, which decides placement: index is the device id.
    pub links: Vec<Vec<u8>>,
    /// What the driver's sysfs shows, which decides only what the fake shows.
    pub driver_links: Vec<Vec<u8>>,
    /// Device counts that may be asked for under policy `documented`.
    pub device_counts: Vec<u8>,
    /// Which sets of such a count are allowed under policy `documented`.
    pub device_sets: SetRule,
    /// Whether AWS documents the counts; else they are this project's assumption.
    pub counts_documented: bool,
    /// Virtual CPUs of the instance.
    pub vcpus: u32,
    /// Host memory of the instance in GiB.
    pub host_memory_gib: u32,
    /// Elastic Fabric Adapters, where known.
    pub efa: Option<u8>,
    /// Grade of evidence: `high`, `medium` or `low`.
    pub confidence: String,
    /// What a reader should know about the row.
    #[serde(default)]
    pub note: String,
    /// Where the facts come from.
    pub source: Vec<String>,
}

/// Family of Neuron devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Generation {
    /// Inferentia.
    Inf1,
    /// Inferentia2.
    Inf2,
    /// Trainium.
    Trn1,
    /// Trainium2.
    Trn2,
    /// Trainium3.
    Trn3,
}

/// How a type's devices are linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One device.
    Single,
    /// A row of devices.
    Line,
    /// A row whose ends are linked.
    Ring,
    /// Four by four, each row and column a ring.
    Torus,
    /// Everyone with everyone.
    Switch,
}

/// Which sets of devices may be given for an allowed count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetRule {
    /// The one device.
    One,
    /// Neighbours in id order.
    Run,
    /// Aligned blocks of the count: rows of four, halves of eight, all.
    Rows,
    /// One device or all.
    Whole,
}

/// A name seen only in code lists.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownName {
    instance_type: String,
    #[allow(dead_code)]
    generation: Generation,
    /// The type with the same shape; without one the shape is unknown.
    like: Option<String>,
    #[allow(dead_code)]
    note: String,
}

/// What is wrong with a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Not the JSON of a catalog.
    #[error("the instance type catalog cannot be read: {0}; compare with core/data/instance-types.json")]
    Malformed(#[from] serde_json::Error),
    /// A row that contradicts itself.
    #[error("instance type {name} in the catalog: {problem}")]
    Row {
        /// The row's name.
        name: String,
        /// What is wrong and what it should be.
        problem: String,
    },
}

impl Catalog {
    /// The catalog that is part of the program.
    #[allow(clippy::todo)]
    pub fn embedded() -> &'static Catalog {
        static EMBEDDED: OnceLock<Catalog> = OnceLock::new();
        EMBEDDED.get_or_init(|| todo!())
    }

    /// Reads an override file's text.
    #[allow(clippy::todo)]
    pub fn from_json(_text: &str) -> Result<Catalog, CatalogError> {
        todo!()
    }

    /// The row that `name` means; `None` if its shape is not known.
    #[allow(clippy::todo)]
    pub fn find(&self, _name: &str) -> Option<&InstanceType> {
        todo!()
    }

    /// Every row, in catalog order.
    pub fn types(&self) -> &[InstanceType] {
        &self.types
    }

    /// Whether `name` is a Neuron type at all, with or without a known shape.
    pub fn is_known_name(&self, name: &str) -> bool {
        self.find(name).is_some() || self.names.iter().any(|known| known.instance_type == name)
    }
}
