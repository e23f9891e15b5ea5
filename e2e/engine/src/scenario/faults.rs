//! The steps about faults of a node's hardware, in fake-neuron's own words, and about what the node then offers. Part of the scenario
//! file's form.

use std::collections::BTreeMap;

use fake_neuron::fault::FaultSpec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::step::first_node;

/// What is broken on a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FaultsStep {
    /// The node, n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
    /// The faults that are in force afterwards, and no others, as in a file of `fake-neuron fault apply`; empty: nothing is broken. All
    /// begin at once and last, for the steps say when.
    #[serde(deserialize_with = "lasting")]
    pub in_force: Vec<FaultSpec>,
}

/// What a node must offer to schedulers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocatableStep {
    /// The node, n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
    /// Its allocatable devices (`aws.amazon.com/neuron`); as many does its report call served.
    pub devices: u32,
    /// Its allocatable logical cores (`aws.amazon.com/neuroncore`).
    pub cores: u32,
    /// Devices that its report calls unhealthy, and a text that its reason for each contains.
    #[serde(default)]
    pub unhealthy: BTreeMap<u8, String>,
    /// Seconds within which it must come to that; 5 if not given, which is time for a look and not for a change.
    #[serde(default = "a_look")]
    pub within: u64,
    /// Seconds for which it must stay so from then on.
    #[serde(default)]
    pub stays: u64,
}

/// What the kernel log of a node's hardware must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelLogStep {
    /// The node, n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
    /// A part of one of the records written since the last step `faults` on that node.
    pub contains: String,
}

fn a_look() -> u64 {
    5
}

fn lasting<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FaultSpec>, D::Error> {
    let faults = Vec::<FaultSpec>::deserialize(deserializer)?;
    match faults.iter().find(|spec| !spec.is_immediate() || spec.probability.is_some()) {
        Some(FaultSpec { fault, .. }) => Err(D::Error::custom(format!(
            "{fault}: leave `after`, `for` and `probability` out, for a scenario's steps say when a fault is in force"
        ))),
        None => Ok(faults),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fake_neuron::fault::Fault;

    use crate::scenario::{FaultsStep, Step, library};

    #[test]
    fn every_fault_has_a_scenario_that_says_what_must_be_done_about_it() {
        let mut broken = BTreeSet::new();
        for scenario in library::all(&Default::default()).unwrap() {
            let steps = scenario.all_steps();
            // What a node offers is the plugin's answer to a fault.
            if !steps.iter().any(|step| matches!(step, Step::Allocatable(_))) {
                continue;
            }
            for step in steps {
                let Step::Faults(FaultsStep { in_force, .. }) = step else { continue };
                broken.extend(in_force.iter().map(|spec| spec.fault.name()));
            }
        }
        assert_eq!(broken, BTreeSet::from(Fault::NAMES));
    }
}
