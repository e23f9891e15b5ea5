//! A scenario's nodes. Part of the scenario file's form.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A node and its fake hardware.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Instance type of the hardware: what DMI says.
    #[serde(rename = "type")]
    pub instance_type: String,
    /// Physical cores per logical core, 1 or 2; the type's default if not given.
    #[serde(default)]
    pub lnc: Option<u8>,
    /// The driver's line, as `fake-neuron up --driver` takes it; the type's own if not given.
    #[serde(default)]
    pub driver: Option<String>,
    /// What the node's instance-type label says; the hardware's type if not given, no label if empty.
    #[serde(default)]
    pub label: Option<String>,
    /// Files below the machine's root that are replaced before the plugin starts (path: text; null removes it).
    #[serde(default)]
    pub files: BTreeMap<String, Option<String>>,
    /// A node on which no device plugin runs.
    #[serde(default)]
    pub without_plugin: bool,
}

impl NodeSpec {
    /// A node of this type, with nothing out of the ordinary.
    pub fn of(instance_type: &str) -> Self {
        Self {
            instance_type: instance_type.to_owned(),
            lnc: None,
            driver: None,
            label: None,
            files: BTreeMap::new(),
            without_plugin: false,
        }
    }
}
