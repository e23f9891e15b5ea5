//! No lost device: after a scenario of the fault tier, everything that nobody holds can be had. Part of
//! [`super::violations`], for a run that has created pods which ask for it.

use neuron_core::ids::{CoreSet, DeviceSet};

use super::hardware::{Hardware, held_by};
use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// A pod that asks for everything that nobody holds on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// `metadata.name` of the pod that asks for everything free.
    pub pod: String,
    /// The node, `n1` first.
    pub node: String,
    /// Devices of which no core is held.
    pub devices: DeviceSet,
    /// Logical cores that nobody holds, those of the devices left out.
    pub cores: CoreSet,
}

impl Probe {
    /// The probe of a node after this outcome; none where everything is held, or where the node's type is in no catalog.
    pub fn of(scenario: &Scenario, outcome: &Outcome, node: &str) -> Option<Self> {
        let hardware = Hardware::of(scenario, node)?;
        let here = outcome.pods.values().filter(|pod| pod.is_running() && pod.node.as_deref() == Some(node));
        let held = here.fold(CoreSet::EMPTY, |all, pod| all.union(held_by(pod, hardware)));
        let free = hardware.all_cores().difference(held);
        let devices = hardware.whole_devices(free);
        let cores = free.difference(hardware.cores_of(devices));
        let pod = format!("asks-for-the-rest-of-{node}");
        (!free.is_empty()).then(|| Self { pod, node: node.to_owned(), devices, cores })
    }
}

/// Free cores that the probes did not get.
pub(super) fn lost(scenario: &Scenario, outcome: &Outcome, probes: &[Probe]) -> Vec<String> {
    probes.iter().filter_map(|probe| lost_of(scenario, outcome, probe)).collect()
}

fn lost_of(scenario: &Scenario, outcome: &Outcome, probe: &Probe) -> Option<String> {
    let hardware = Hardware::of(scenario, &probe.node)?;
    let name = &probe.pod;
    let free = probe.cores.union(hardware.cores_of(probe.devices));
    let Some(pod) = outcome.pods.get(name) else {
        return Some(format!("cores {free} cannot be had: pod {name} is not there"));
    };
    if !pod.is_running() {
        let why = pod.refusal_text().unwrap_or_default();
        return Some(format!("cores {free} cannot be had: pod {name} is {}: {why}", pod.phase));
    }
    let got = held_by(pod, hardware);
    (got != free).then(|| format!("pod {name} got cores {got}, free were {free}"))
}
