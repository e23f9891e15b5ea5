//! Every instance type with Neuron devices: shape, allowed counts and the grade of evidence. Data, not code:
//! `core/data/instance-types.json` is embedded. Read by [`crate::topology`], fake-neuron and the tables.

mod check;

use std::collections::BTreeSet;
use std::sync::LazyLock;

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
struct KnownName {
    instance_type: String,
    /// The type with the same shape; without one the shape is unknown.
    like: Option<String>,
}

/// A catalog file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "_about")]
    _about: serde::de::IgnoredAny,
    #[serde(default)]
    types: Vec<InstanceType>,
    #[serde(default)]
    names: Vec<KnownName>,
}

/// What is wrong with a catalog.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// Not the JSON of a catalog.
    #[error("the instance type catalog cannot be read: {0}; compare with core/data/instance-types.json")]
    Malformed(#[from] serde_json::Error),
    /// A row that contradicts itself or another one.
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
    pub fn embedded() -> &'static Catalog {
        static EMBEDDED: LazyLock<Catalog> = LazyLock::new(|| {
            let nothing = Catalog { types: Vec::new(), names: Vec::new() };
            // The text is part of the program and a test reads it, so the fallback never happens.
            nothing.merged(include_str!("../../../data/instance-types.json")).unwrap_or(nothing)
        });
        &EMBEDDED
    }

    /// The embedded catalog with an override file's text merged over it: a row replaces the embedded row
    /// of the same name, a new one is added, every other row stays; the same for `names`.
    pub fn from_json(text: &str) -> Result<Catalog, CatalogError> {
        Catalog::embedded().merged(text)
    }

    /// The row that `name` means, also by alias and with `ml.` in front; `None` if its shape is not known.
    pub fn find(&self, name: &str) -> Option<&InstanceType> {
        let name = plain(name);
        let row = |name: &str| self.types.iter().find(|row| row.name == name);
        row(name).or_else(|| row(self.known(name)?.like.as_deref()?))
    }

    /// Every row, in catalog order.
    pub fn types(&self) -> &[InstanceType] {
        &self.types
    }

    /// Whether `name` is a Neuron type at all, with or without a known shape.
    pub fn is_known_name(&self, name: &str) -> bool {
        self.find(name).is_some() || self.known(plain(name)).is_some()
    }

    /// The names that are no rows of their own, in catalog order: aliases and types without a known shape.
    pub fn other_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(|known| known.instance_type.as_str())
    }

    fn known(&self, name: &str) -> Option<&KnownName> {
        self.names.iter().find(|known| known.instance_type == name)
    }

    fn merged(&self, text: &str) -> Result<Catalog, CatalogError> {
        let file: File = serde_json::from_str(text)?;
        let mut catalog = self.clone();
        let mut seen = BTreeSet::new();
        let wrong = |name: &str, problem: String| CatalogError::Row { name: name.to_owned(), problem };
        for row in file.types {
            check::row(&row)?;
            if !seen.insert(row.name.clone()) {
                return Err(wrong(&row.name, "stands twice; keep one row".to_owned()));
            }
            // A row says more than a mere name: it takes the name's place.
            catalog.names.retain(|known| known.instance_type != row.name);
            match catalog.types.iter_mut().find(|old| old.name == row.name) {
                Some(old) => *old = row,
                None => catalog.types.push(row),
            }
        }
        for known in file.names {
            if !seen.insert(known.instance_type.clone()) {
                return Err(wrong(&known.instance_type, "stands twice; keep one of them".to_owned()));
            }
            if let Some(like) = &known.like
                && !catalog.types.iter().any(|row| row.name == *like)
            {
                return Err(wrong(
                    &known.instance_type,
                    format!("is like {like}, which is not in the catalog"),
                ));
            }
            catalog.names.retain(|old| old.instance_type != known.instance_type);
            catalog.names.push(known);
        }
        Ok(catalog)
    }
}

/// SageMaker writes `ml.` in front of the name of the same type.
fn plain(name: &str) -> &str {
    name.strip_prefix("ml.").unwrap_or(name)
}
