//! What kubelet does with a pod's containers as far as their counts decide it: which container gets handed-down ids
//! and which needs fresh ones. Read by the searches and by the diagnosis of refusals.

use std::cmp::Reverse;

use super::free_sets::cores_per_id;
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::request::{PodRequest, Role};
use crate::topology::Topology;

/// One container's request of one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Index of the container in the pod request.
    pub(super) container: usize,
    /// What it requests.
    pub(super) resource: Resource,
    /// How many ids the container gets, at least 1.
    pub(super) count: u32,
    /// How many ids init containers have handed down before this step.
    pub(super) handed_down: u32,
    /// Whether the ids leave the hand-down set: a sidecar or an app container keeps what it takes.
    pub(super) keeps: bool,
    /// Steps of one chain hand ids down to each other; steps of different chains never do.
    pub(super) chain: usize,
}

/// Every step of a pod, in kubelet's order; a container's devices stand before its cores.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Index is the step.
    pub(super) steps: Vec<Step>,
    /// Number of chains; a step's `chain` is below it.
    pub(super) chains: usize,
    /// Fresh ids that the whole pod takes.
    pub(super) fresh: Amount,
}

/// A number of devices and a number of cores, requested under their own names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    /// Devices requested as devices.
    pub(super) devices: u32,
    /// Logical cores requested as cores.
    pub(super) cores: u32,
    /// Core sets all of whose cores are fresh.
    pub(super) core_sets: u32,
}

impl Step {
    /// How many ids must come from the free ones; 0 when kubelet chooses among the handed-down ids alone.
    pub(super) fn fresh(&self) -> u32 {
        self.count.saturating_sub(self.handed_down)
    }
}

impl Amount {
    /// This amount plus the fresh ids of the step.
    pub(super) fn with(mut self, step: &Step) -> Amount {
        let sum = match step.resource {
            Resource::Device => &mut self.devices,
            Resource::Core => &mut self.cores,
        };
        *sum = sum.saturating_add(step.fresh());
        self.core_sets += u32::from(step.resource == Resource::Core && step.handed_down == 0);
        self
    }
}

impl Plan {
    /// Replays kubelet's hand-down on the counts of `request` (docs/architecture.md §4, "Pod request").
    pub(super) fn of(request: &PodRequest) -> Plan {
        let mut plan = Plan { steps: Vec::new(), chains: 0, fresh: Amount::default() };
        let mut handed_down = [0u32; 2];
        let mut chain = [0usize; 2];
        for (container, requested) in request.containers.iter().enumerate() {
            for resource in Resource::ALL {
                let count = requested.count(resource);
                if count == 0 {
                    continue;
                }
                let at = resource as usize;
                if handed_down[at] == 0 {
                    chain[at] = plan.chains;
                    plan.chains += 1;
                }
                let keeps = !matches!(requested.role, Role::Init);
                let step = Step {
                    container,
                    resource,
                    count,
                    handed_down: handed_down[at],
                    keeps,
                    chain: chain[at],
                };
                handed_down[at] =
                    if keeps { handed_down[at].saturating_sub(count) } else { handed_down[at].max(count) };
                plan.fresh = plan.fresh.with(&step);
                plan.steps.push(step);
            }
        }
        plan
    }

    /// Whether the node has as much free as the pod takes, linked or not.
    pub(super) fn enough_is_free(&self, occupancy: &Occupancy) -> bool {
        let cores_per_device = u64::from(occupancy.topology().cores_per_device());
        let cores = u64::from(self.fresh.devices) * cores_per_device + u64::from(self.fresh.cores);
        self.fresh.devices <= occupancy.free_devices().len()
            && cores <= u64::from(occupancy.free_cores().len())
    }

    /// The steps' indices chain by chain, the chain with the largest request first.
    pub(super) fn largest_first(&self, topology: &Topology) -> Vec<usize> {
        let mut largest = vec![0; self.chains];
        for step in &self.steps {
            let cores = step.count.saturating_mul(cores_per_id(topology, step.resource));
            largest[step.chain] = cores.max(largest[step.chain]);
        }
        let mut order: Vec<usize> = (0..self.steps.len()).collect();
        let chain = |at: usize| self.steps[at].chain;
        order.sort_by_key(|&at| (Reverse(largest[chain(at)]), chain(at), at));
        order
    }

    /// Whether any step gets ids that an init container hands down.
    pub(super) fn hands_down(&self) -> bool {
        self.chains < self.steps.len()
    }

    /// Whether the step is the only one of its chain.
    pub(super) fn is_alone(&self, step: &Step) -> bool {
        self.steps.iter().filter(|other| other.chain == step.chain).count() == 1
    }

    /// The last step before each step with which it may swap sets freely: the same count of the same resource,
    /// both alone in their chains.
    pub(super) fn interchangeable(&self) -> Vec<Option<usize>> {
        let earlier = |(at, step): (usize, &Step)| {
            let same = |other: &Step| (other.resource, other.count) == (step.resource, step.count);
            let last = || self.steps[..at].iter().rposition(|other| same(other) && self.is_alone(other));
            if self.is_alone(step) { last() } else { None }
        };
        self.steps.iter().enumerate().map(earlier).collect()
    }
}

/// Free devices or cores of a node.
pub(super) fn free_of(occupancy: &Occupancy, resource: Resource) -> u32 {
    match resource {
        Resource::Device => occupancy.free_devices().len(),
        Resource::Core => occupancy.free_cores().len(),
    }
}

/// All devices or cores of a node, healthy or not.
pub(super) fn total_of(occupancy: &Occupancy, resource: Resource) -> u32 {
    match resource {
        Resource::Device => u32::from(occupancy.topology().devices()),
        Resource::Core => u32::from(occupancy.topology().cores()),
    }
}
