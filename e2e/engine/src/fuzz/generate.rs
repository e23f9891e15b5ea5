//! Makes a random [`Plan`] of a seed. Called by [`super::on_embedded`] and [`super::comparable`].

use fastrand::Rng;
use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::topology::{Policy, Topology};

use super::plan::{Action, NodePlan, Plan, PodPlan};
use super::shapes::{self, Counts};
use crate::scenario::{CatalogSource, DeviceState, Part};

/// Types that most plans use: each shape once, small enough that pods meet. With a catalog file its types take their place.
const USUAL_TYPES: [&str; 6] =
    ["inf1.6xlarge", "inf2.24xlarge", "inf2.48xlarge", "trn1.32xlarge", "trn2.48xlarge", "trn3.48xlarge"];
/// Parts that a plan restarts or does without.
const PARTS: [Part; 4] = [Part::Extender, Part::Plugin, Part::Kubelet, Part::Scheduler];

/// The plan of a seed.
pub fn plan(seed: u64, catalog: &CatalogSource) -> Plan {
    // Neighbouring seeds must not make like plans.
    make(seed, Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66), catalog, false)
}

/// A plan of a seed that most likely comes out the same wherever it runs: one node, equal pods where several are created at
/// once, and no pod that ends of itself. Every attempt makes another.
pub fn repeatable(seed: u64, attempt: u64, catalog: &CatalogSource) -> Plan {
    let mut random =
        Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ attempt.wrapping_mul(0xD1B5_4A33));
    // The first numbers of like seeds are alike.
    random.u64(..);
    make(seed, random, catalog, true)
}

fn make(seed: u64, mut random: Rng, catalog: &CatalogSource, repeatable: bool) -> Plan {
    let usual = usual_types(catalog);
    let nodes: Vec<(NodePlan, Option<Topology>)> =
        (0..if random.u8(..4) == 0 && !repeatable { 2 } else { 1 })
            .map(|_| node(&mut random, catalog, &usual))
            .collect();
    let mut generator =
        Generator { random, nodes, there: Vec::new(), named: 0, unhealthy: Vec::new(), repeatable };
    let count = generator.random.usize(3..=12);
    let actions = (0..count).map(|_| generator.action(true)).collect();
    let catalog = catalog.clone();
    Plan { seed, catalog, nodes: generator.nodes.into_iter().map(|(node, _)| node).collect(), actions }
}

/// The types that most plans use: those that the catalog file brings, if there is one.
fn usual_types(catalog: &CatalogSource) -> Vec<&InstanceType> {
    let types = catalog.types();
    let is_changed = |row: &&InstanceType| Catalog::embedded().find(&row.name) != Some(*row);
    let changed: Vec<_> = types.types().iter().filter(is_changed).collect();
    if changed.is_empty() {
        USUAL_TYPES.iter().filter_map(|name| types.find(name)).collect()
    } else {
        changed
    }
}

fn node(random: &mut Rng, catalog: &CatalogSource, usual: &[&InstanceType]) -> (NodePlan, Option<Topology>) {
    let usual = random.choice(usual).copied();
    let types = catalog.types().types();
    let any: &InstanceType = &types[random.usize(..types.len())];
    let model = usual.filter(|_| random.u8(..4) > 0).unwrap_or(any);
    let lnc = (model.default_lnc == 2 && random.u8(..3) == 0).then_some(1);
    let topology = Topology::of(model, lnc.unwrap_or(model.default_lnc), Policy::Documented).ok();
    (NodePlan { instance_type: model.name.clone(), lnc, devices: model.devices }, topology)
}

struct Generator {
    random: Rng,
    nodes: Vec<(NodePlan, Option<Topology>)>,
    /// Pods that were created and not deleted.
    there: Vec<String>,
    /// Pods named so far.
    named: usize,
    /// Nodes and devices that were broken and not healed.
    unhealthy: Vec<(usize, u8)>,
    /// Whether little is left to chance.
    repeatable: bool,
}

impl Generator {
    /// The next action; not at the outer level only what may happen while a part is stopped.
    fn action(&mut self, outer: bool) -> Action {
        loop {
            match self.random.u8(..if outer { 20 } else { 12 }) {
                0..6 => {
                    let count = self.random.usize(1..=2);
                    return Action::Apply((0..count).map(|_| self.pod()).collect());
                }
                6..8 => return Action::Together(self.equal_pods()),
                8..12 if !self.there.is_empty() => return self.delete(),
                12..14 => {
                    let (part, node) = self.part();
                    return Action::Restart(part, node);
                }
                14..16 => {
                    let (part, node) = self.part();
                    let count = if self.repeatable { 1 } else { self.random.usize(1..=2) };
                    return Action::Without(part, node, (0..count).map(|_| self.action(false)).collect());
                }
                16..20 => {
                    if let Some(action) = self.device() {
                        return action;
                    }
                }
                _ => {}
            }
        }
    }

    fn part(&mut self) -> (Part, usize) {
        let part = PARTS[self.random.usize(..PARTS.len())];
        let of_nodes = matches!(part, Part::Plugin | Part::Kubelet);
        (part, if of_nodes { self.random.usize(..self.nodes.len()) } else { 0 })
    }

    fn delete(&mut self) -> Action {
        let count = self.random.usize(1..=self.there.len().min(3));
        Action::Delete(
            (0..count).map(|_| self.there.swap_remove(self.random.usize(..self.there.len()))).collect(),
        )
    }

    /// Breaks a device or heals one; none where a node would be left with too little.
    fn device(&mut self) -> Option<Action> {
        if !self.unhealthy.is_empty() && self.random.bool() {
            let (node, device) = self.unhealthy.swap_remove(self.random.usize(..self.unhealthy.len()));
            return Some(Action::Device(node, device, DeviceState::Healthy));
        }
        let node = self.random.usize(..self.nodes.len());
        let device = self.random.u8(..self.nodes[node].0.devices);
        let unhealthy = self.unhealthy.iter().filter(|(other, _)| *other == node).count();
        if self.nodes[node].0.devices < 4 || unhealthy > 1 || self.unhealthy.contains(&(node, device)) {
            return None;
        }
        self.unhealthy.push((node, device));
        let state = if self.random.bool() { DeviceState::Lost } else { DeviceState::Unhealthy };
        Some(Action::Device(node, device, state))
    }

    fn named(&mut self, mut pod: PodPlan) -> PodPlan {
        self.named += 1;
        pod.name = format!("p{}", self.named);
        self.there.push(pod.name.clone());
        pod
    }

    fn equal_pods(&mut self) -> Vec<PodPlan> {
        let model = self.unnamed();
        let equal = self.repeatable || self.random.u8(..4) > 0;
        (0..self.random.usize(2..=4))
            .map(|_| {
                let pod = if equal { model.clone() } else { self.unnamed() };
                self.named(pod)
            })
            .collect()
    }

    fn pod(&mut self) -> PodPlan {
        let pod = self.unnamed();
        self.named(pod)
    }

    fn unnamed(&mut self) -> PodPlan {
        let roles = shapes::roles(&mut self.random);
        // All containers ask for what one node has.
        let node = self.random.usize(..self.nodes.len());
        let counts = self.nodes[node].1.as_ref().map_or_else(Counts::of_one, Counts::of);
        let containers = shapes::containers(&mut self.random, roles, &counts);
        let ends_after = (!self.repeatable && self.random.u8(..5) == 0).then(|| self.random.u32(0..=20));
        PodPlan { name: String::new(), containers, ends_after }
    }
}

impl Counts {
    fn of(topology: &Topology) -> Self {
        let devices = topology.device_counts().iter().copied().map(u32::from);
        Self {
            devices: devices.collect(),
            cores: topology.core_counts().into_iter().map(u32::from).collect(),
        }
    }

    /// Those of a type that nobody knows.
    fn of_one() -> Self {
        Self { devices: vec![1], cores: vec![1] }
    }
}
