//! What must hold of every outcome, whatever the scenario: one file for each invariant. Asked by [`crate::run`]; what a
//! scenario's own file expects is in [`crate::outcome::expectations`].

mod candidate_sets;
mod device_nodes;
pub mod exclusivity;
mod hardware;
pub mod no_lost_device;
mod no_lost_pod;
pub mod record;
mod requested_counts;

use std::fmt;

use self::exclusivity::History;
pub use self::hardware::documented_node;
use self::no_lost_device::Probe;
use crate::outcome::Outcome;
use crate::scenario::{Scenario, Tier};

/// What must hold of every outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// Every running pod's record says what its containers really got.
    RecordMatchesReality,
    /// No core is held by two pods at one time.
    Exclusivity,
    /// Every running container has as many devices and cores as its manifest asks for.
    RequestedCounts,
    /// Every set that a running container got is one that its node's type allows.
    CandidateSets,
    /// Every running container sees the device nodes of its set and no others.
    DeviceNodes,
    /// After a fault no pod is missing, waits, or has failed that kubelet would not fail of itself.
    NoLostPod,
    /// After a fault every device that nobody holds can be had.
    NoLostDevice,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// Where it does not hold, in one sentence.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What a run has seen of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'r> {
    /// What the pods have come to.
    pub outcome: &'r Outcome,
    /// When their containers ran, and on what.
    pub history: &'r History,
    /// The pods that ask for everything that nobody holds, once they are created.
    pub probes: &'r [Probe],
}

/// Everything that does not hold; empty if all is well. The last two invariants hold of the fault tier only.
pub fn violations(scenario: &Scenario, observed: Observed) -> Vec<Violation> {
    let Observed { outcome, history, probes } = observed;
    let mut checks = vec![
        (Invariant::RecordMatchesReality, record::mismatches(outcome)),
        (Invariant::Exclusivity, exclusivity::held_twice(scenario, outcome)),
        (Invariant::Exclusivity, history.held_at_one_time(scenario)),
        (Invariant::RequestedCounts, requested_counts::not_met(scenario, outcome)),
        (Invariant::CandidateSets, candidate_sets::not_allowed(scenario, outcome)),
        (Invariant::DeviceNodes, device_nodes::mismatches(scenario, outcome)),
    ];
    if scenario.tier == Tier::Faults {
        checks.push((Invariant::NoLostPod, no_lost_pod::lost(scenario, outcome, probes)));
        checks.push((Invariant::NoLostDevice, no_lost_device::lost(scenario, outcome, probes)));
    }
    let violation = |invariant| move |text| Violation { invariant, text };
    checks.into_iter().flat_map(|(invariant, texts)| texts.into_iter().map(violation(invariant))).collect()
}
