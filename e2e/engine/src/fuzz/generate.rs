//! Makes a random [`Plan`] of a seed. Called by [`super::on_embedded`] and [`super::comparable`].

use fastrand::Rng;
use neuron_core::catalog::{Catalog, InstanceType};
use neuron_core::request::Role;
use neuron_core::topology::{Policy, Topology};

use super::plan::{Action, ContainerPlan, NodePlan, Plan, PodPlan};
use crate::scenario::{DeviceState, Part};

/// Types that most plans use: each shape once, small enough that pods meet.
const USUAL_TYPES: [&str; 6] =
    ["inf1.6xlarge", "inf2.24xlarge", "inf2.48xlarge", "trn1.32xlarge", "trn2.48xlarge", "trn3.48xlarge"];
/// Parts that a plan restarts or does without.
const PARTS: [Part; 4] = [Part::Extender, Part::Plugin, Part::Kubelet, Part::Scheduler];

/// The plan of a seed.
pub fn plan(seed: u64) -> Plan {
    // Neighbouring seeds must not make like plans.
    make(seed, Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66), false)
}

/// A plan of a seed that leaves little to chance: one node, equal pods where several are created at once, and no pod
/// that ends of itself. Every attempt makes another.
pub fn tame(seed: u64, attempt: u64) -> Plan {
    let mut random =
        Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ attempt.wrapping_mul(0xD1B5_4A33));
    // The first numbers of like seeds are alike.
    random.u64(..);
    make(seed, random, true)
}

fn make(seed: u64, mut random: Rng, tame: bool) -> Plan {
    let nodes: Vec<(NodePlan, Option<Topology>)> =
        (0..if random.u8(..4) == 0 && !tame { 2 } else { 1 }).map(|_| node(&mut random)).collect();
    let mut generator = Generator { random, nodes, there: Vec::new(), named: 0, broken: Vec::new(), tame };
    let count = generator.random.usize(3..=12);
    let actions = (0..count).map(|_| generator.action(true)).collect();
    Plan { seed, nodes: generator.nodes.into_iter().map(|(node, _)| node).collect(), actions }
}

fn node(random: &mut Rng) -> (NodePlan, Option<Topology>) {
    let catalog = Catalog::embedded();
    let usual = random.choice(USUAL_TYPES).and_then(|name| catalog.find(name));
    let types = catalog.types();
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
    broken: Vec<(usize, u8)>,
    /// Whether little is left to chance.
    tame: bool,
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
                    let count = if self.tame { 1 } else { self.random.usize(1..=2) };
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
        if !self.broken.is_empty() && self.random.bool() {
            let (node, device) = self.broken.swap_remove(self.random.usize(..self.broken.len()));
            return Some(Action::Device(node, device, DeviceState::Healthy));
        }
        let node = self.random.usize(..self.nodes.len());
        let device = self.random.u8(..self.nodes[node].0.devices);
        let broken = self.broken.iter().filter(|(other, _)| *other == node).count();
        if self.nodes[node].0.devices < 4 || broken > 1 || self.broken.contains(&(node, device)) {
            return None;
        }
        self.broken.push((node, device));
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
        let equal = self.tame || self.random.u8(..4) > 0;
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
        let mut roles = Vec::new();
        if self.random.u8(..4) == 0 {
            for _ in 0..self.random.usize(1..=2) {
                roles.push(if self.random.u8(..3) == 0 { Role::Sidecar } else { Role::Init });
            }
        }
        let apps = if self.random.u8(..3) == 0 { self.random.usize(2..=3) } else { 1 };
        roles.extend((0..apps).map(|_| Role::App));
        // All containers ask for what one node has, most often the same count: hand-downs need that.
        let node = self.random.usize(..self.nodes.len());
        let usual = self.counts(node);
        let containers = roles
            .into_iter()
            .map(|role| {
                let (devices, cores) = match self.random.u8(..10) {
                    0 => (0, 0),
                    1..5 => self.counts(node),
                    _ => usual,
                };
                ContainerPlan { role, devices, cores }
            })
            .collect();
        let ends_after = (!self.tame && self.random.u8(..5) == 0).then(|| self.random.u32(0..=20));
        PodPlan { name: String::new(), containers, ends_after }
    }

    /// What one container asks for: counts that the node's type has, now and then one that it does not.
    fn counts(&mut self, node: usize) -> (u32, u32) {
        let under = self.random.u8(..12);
        let topology = self.nodes[node].1.as_ref();
        let (devices, cores) = topology.map_or((vec![1], vec![1]), |topology| {
            (topology.device_counts().to_vec(), topology.core_counts())
        });
        let devices = if under < 6 || under == 11 { self.count(&devices) } else { 0 };
        let cores = if under > 5 { self.count(&cores) } else { 0 };
        (devices, cores)
    }

    fn count(&mut self, known: &[u8]) -> u32 {
        let largest = known.last().copied().unwrap_or(1);
        match self.random.u8(..12) {
            0 => u32::from(self.random.u8(1..=largest.saturating_add(1))),
            // Small ones more often, so that several pods fit.
            1..8 => u32::from(known[self.random.usize(..known.len().div_ceil(2))]),
            _ => u32::from(known[self.random.usize(..known.len())]),
        }
    }
}
