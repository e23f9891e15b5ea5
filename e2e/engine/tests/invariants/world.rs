//! A run of the fault tier after which every invariant holds, for tests to change one thing of it.

use std::collections::{BTreeMap, BTreeSet};

use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_e2e_engine::invariants::exclusivity::History;
use neuron_e2e_engine::invariants::no_lost_device::Probe;
use neuron_e2e_engine::invariants::{Invariant, Observed, Violation, violations};
use neuron_e2e_engine::outcome::{Outcome, PodOutcome};
use neuron_e2e_engine::scenario::{CatalogSource, Scenario, Tier, library};
use neuron_workload::Report;

/// A world of nodes of both types.
const CORES_PER_DEVICE: u8 = 2;

/// n1 is a ring of twelve devices, n2 a torus of sixteen. `waits` may wait; nothing else may.
const SCENARIO: &str = "
about: x
nodes: [{type: inf2.48xlarge}, {type: trn1.32xlarge}]
kubelet_may_say: [kubelet is away]
steps:
- apply:
  - {kind: Pod, metadata: {name: devices}, spec: {containers: [{name: main, resources: {limits: {aws.amazon.com/neuron: 2}}}]}}
  - {kind: Pod, metadata: {name: cores}, spec: {containers: [{name: main, resources: {limits: {aws.amazon.com/neuroncore: 3}}}]}}
  - {kind: Pod, metadata: {name: pair}, spec: {containers: [{name: main, resources: {limits: {aws.amazon.com/neuroncore: 2}}}]}}
  - {kind: Pod, metadata: {name: rows}, spec: {containers: [{name: main, resources: {limits: {aws.amazon.com/neuron: 4}}}]}}
  - {kind: Pod, metadata: {name: plain}, spec: {containers: [{name: main}]}}
  - {kind: Pod, metadata: {name: waits}, spec: {containers: [{name: main, resources: {limits: {aws.amazon.com/neuron: 12}}}]}}
- during:
    bound: 1
    apply:
    - repeat: {number: 8}
      steps:
      - {kind: Pod, metadata: {name: \"p${number}\"}, spec: {containers: []}}
    steps: [{force-delete: [p1]}]
expect:
  waits: {phase: Pending}
";

/// What a run has seen.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) outcome: Outcome,
    pub(crate) history: History,
    pub(crate) probes: Vec<Probe>,
}

impl World {
    /// One in which every invariant holds.
    pub(crate) fn new() -> Self {
        let scenario = library::parse("world", SCENARIO, &CatalogSource::default()).unwrap().remove(0);
        let mut world = World {
            scenario: Scenario { tier: Tier::Faults, ..scenario },
            outcome: Outcome { version: 1, pods: Default::default() },
            history: History::default(),
            probes: Vec::new(),
        };
        world.give("devices", "n1", "0,1", "");
        world.give("cores", "n1", "", "4,5,6");
        world.give("pair", "n1", "", "10,11");
        world.give("rows", "n2", "0,1,2,3", "");
        world.pod("waits").phase = "Pending".into();
        // Those that ask for nothing; p1 was deleted by force.
        for name in ["plain", "p2", "p3", "p4", "p5", "p6", "p7", "p8"] {
            let pod = world.pod(name);
            (pod.phase, pod.node) = ("Running".into(), Some("n1".into()));
            pod.containers.insert("main".into(), Report::default());
        }
        world
    }

    /// The pod's outcome; a new one if it has none yet.
    pub(crate) fn pod(&mut self, name: &str) -> &mut PodOutcome {
        self.outcome.pods.entry(name.to_owned()).or_default()
    }

    /// The pod runs and its container has these devices and cores, really and by its record.
    pub(crate) fn give(&mut self, pod: &str, node: &str, devices: &str, cores: &str) {
        self.give_each(pod, node, &[("main", devices, cores)]);
    }

    /// As [`Self::give`], of a pod with several containers: names, devices and cores.
    pub(crate) fn give_each(&mut self, pod: &str, node: &str, containers: &[(&str, &str, &str)]) {
        let outcome = self.pod(pod);
        (outcome.phase, outcome.node) = ("Running".into(), Some(node.into()));
        outcome.annotations = annotations(node, containers);
        let reports =
            containers.iter().map(|(name, devices, cores)| ((*name).into(), printed(devices, cores)));
        outcome.containers = reports.collect();
    }

    /// The pod's record says that its container has these devices and cores.
    pub(crate) fn record(&mut self, pod: &str, devices: &str, cores: &str) {
        let node = self.pod(pod).node.clone().unwrap();
        self.pod(pod).annotations = annotations(&node, &[("main", devices, cores)]);
    }

    /// The pod's container really sees these devices and cores, and the device nodes of both.
    pub(crate) fn really(&mut self, pod: &str, devices: &str, cores: &str) {
        self.pod(pod).containers.insert("main".into(), printed(devices, cores));
    }

    /// What its only container printed.
    pub(crate) fn report(&mut self, pod: &str) -> &mut Report {
        self.pod(pod).containers.get_mut("main").unwrap()
    }

    /// Everything that does not hold.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        let World { scenario, outcome, history, probes } = self;
        violations(scenario, Observed { outcome, history, probes })
    }
}

/// After this change exactly one thing is wrong: this.
#[track_caller]
pub(crate) fn violates(change: fn(&mut World), invariant: Invariant, text: &str) {
    let mut world = World::new();
    change(&mut world);
    assert_eq!(world.violations(), [Violation { invariant, text: text.to_owned() }]);
}

/// The annotations that say of each container what it has.
fn annotations(node: &str, containers: &[(&str, &str, &str)]) -> BTreeMap<String, String> {
    let sets = containers.iter().map(|(name, devices, cores)| {
        let sets = ContainerAllocation { devices: devices.parse().unwrap(), cores: cores.parse().unwrap() };
        ((*name).into(), sets)
    });
    Allocation { node: node.into(), lnc: 1, containers: sets.collect() }.annotations(true, "0")
}

/// What a container prints that sees these devices and cores, and the device nodes of both.
fn printed(devices: &str, cores: &str) -> Report {
    let ids = |text: &str| text.split(',').filter_map(|id| id.parse::<u8>().ok()).collect::<Vec<_>>();
    let of_cores = ids(cores).into_iter().map(|core| core / CORES_PER_DEVICE);
    let nodes: BTreeSet<u8> = ids(devices).into_iter().chain(of_cores).collect();
    let variables = [("AWS_NEURON_VISIBLE_DEVICES", devices), ("NEURON_RT_VISIBLE_CORES", cores)];
    let set = variables.into_iter().filter(|(_, ids)| !ids.is_empty());
    Report {
        env: set.map(|(name, ids)| (name.to_owned(), ids.to_owned())).collect(),
        devices: nodes.iter().map(|id| format!("/dev/neuron{id}")).collect(),
        ..Report::default()
    }
}
