//! Every instance type with Neuron devices: its shape, its counts and the grade of evidence. Data, not code:
//! `core/data/instance-types.json` is embedded. Read by [`crate::topology`], fake-neuron and the tables.

mod check;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

/// Every known instance type, and the names that mean one of them or a type whose hardware is not known.
#[derive(Clone, Debug)]
pub struct Catalog {
    types: Vec<InstanceType>,
    names: Vec<KnownName>,
}

/// One instance type: one row of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceType {
    /// The type's name as EC2 has it, such as `trn1.32xlarge`.
    #[serde(rename = "instance_type")]
    pub name: String,
    /// Generation of the devices.
    pub generation: Generation,
    /// Number of devices, 1 to 64; their ids count from 0.
    pub devices: u8,
    /// Physical cores of one device, at least 1; at most 128 on all devices together.
    pub cores_per_device: u8,
    /// LNC unless the node is set up otherwise: 1, or 2 on Trainium2 and Trainium3.
    pub default_lnc: u8,
    /// Memory of one device in bytes.
    pub device_memory_bytes: u64,
    /// How the devices are linked.
    #[serde(rename = "topology")]
    pub shape: Shape,
    /// Physical links, which decide placement: the ids that each device is linked to; index is the device id.
    pub links: Vec<Vec<u8>>,
    /// The links that the driver's sysfs shows, which decide only what fake-neuron shows; index is the device id.
    pub driver_links: Vec<Vec<u8>>,
    /// Device counts that may be requested under policy `documented`, ascending, 1 to `devices`.
    pub device_counts: Vec<u8>,
    /// Which sets of such a count are candidate sets under policy `documented`.
    pub device_sets: SetRule,
    /// Whether AWS documents the counts; else they are this project's assumption.
    pub counts_documented: bool,
    /// Virtual CPUs of the instance.
    pub vcpus: u32,
    /// Host memory of the instance in GiB.
    pub host_memory_gib: u32,
    /// Number of Elastic Fabric Adapters, where known.
    pub efa: Option<u8>,
    /// Grade of evidence: `high`, `medium` or `low`.
    pub confidence: String,
    /// What a reader should know about the row.
    #[serde(default)]
    pub note: String,
    /// Where the facts come from: public files and pages.
    pub source: Vec<String>,
}

/// Generation of Neuron devices.
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

/// Which sets of devices are candidate sets for a supported count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SetRule {
    /// The one device that there is.
    One,
    /// Consecutive ids that are linked.
    Run,
    /// Blocks of the count that start at a multiple of it: rows of four, halves of eight, all.
    Rows,
    /// One device or all.
    Whole,
}

/// A name that stands only in code lists of AWS' tools.
#[derive(Clone, Debug, Deserialize)]
struct KnownName {
    instance_type: String,
    /// The type with the same hardware; without one the hardware is not known.
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
    /// The text is not the JSON of a catalog.
    #[error("the instance type catalog cannot be read: {0}; compare with core/data/instance-types.json")]
    Malformed(#[from] serde_json::Error),
    /// A row contradicts itself or another one.
    #[error("instance type {name} in the catalog: {problem}")]
    Row {
        /// The instance type that the row is about.
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
    ///
    /// # Errors
    /// [`CatalogError`] if the text is no JSON of a catalog, or a row contradicts itself or another one.
    pub fn from_json(text: &str) -> Result<Catalog, CatalogError> {
        Catalog::embedded().merged(text)
    }

    /// The row that `name` means, also by alias and with `ml.` in front; `None` if its hardware is not known.
    pub fn find(&self, name: &str) -> Option<&InstanceType> {
        let name = without_prefix(name);
        let row = |name: &str| self.types.iter().find(|row| row.name == name);
        row(name).or_else(|| row(self.known(name)?.like.as_deref()?))
    }

    /// Every row, in catalog order.
    pub fn types(&self) -> &[InstanceType] {
        &self.types
    }

    /// Whether `name` is an instance type with Neuron devices, with or without a row.
    pub fn is_known_name(&self, name: &str) -> bool {
        self.find(name).is_some() || self.known(without_prefix(name)).is_some()
    }

    /// The names that are no rows of their own, in catalog order: aliases and types whose hardware is not known.
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

impl Generation {
    /// Every generation, oldest first.
    pub const ALL: [Generation; 5] =
        [Generation::Inf1, Generation::Inf2, Generation::Trn1, Generation::Trn2, Generation::Trn3];

    /// What the driver calls it in `info/architecture/instance_type` (docs/reference/neuron.md §4.3).
    pub fn family(self) -> &'static str {
        match self {
            Generation::Inf1 => "Inf1",
            Generation::Inf2 => "Inf2",
            Generation::Trn1 => "Trn1",
            Generation::Trn2 => "Trn2",
            Generation::Trn3 => "Trn3",
        }
    }

    /// The LNCs that the generation can run at, ascending (docs/reference/neuron.md §1.3).
    pub fn logical_core_sizes(self) -> &'static [u8] {
        match self {
            Generation::Inf1 | Generation::Inf2 | Generation::Trn1 => &[1],
            Generation::Trn2 | Generation::Trn3 => &[1, 2],
        }
    }
}

/// SageMaker writes `ml.` in front of the name of the same type.
pub(crate) fn without_prefix(name: &str) -> &str {
    name.strip_prefix("ml.").unwrap_or(name)
}
