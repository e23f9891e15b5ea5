//! What kubelet will do with a pod's containers, as far as their counts decide it: who takes handed-down
//! ids and who needs fresh ones. Read by the searches and by the refusals.

use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::request::{PodRequest, Role};

/// One container's request of one resource, in kubelet's order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Place of the container in the pod request.
    pub(super) container: usize,
    /// What is asked for.
    pub(super) resource: Resource,
    /// How many ids the container gets, at least 1.
    pub(super) count: u32,
    /// How many ids kubelet has left from init containers before this step.
    pub(super) handed: u32,
    /// Whether the ids leave the hand-down set: a sidecar or an app container keeps what it takes.
    pub(super) keeps: bool,
    /// Steps of one chain hand ids down to each other; steps of different chains never do.
    pub(super) chain: usize,
}

/// Every step of a pod, in kubelet's order; a container's devices stand before its cores.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) chains: usize,
    /// Fresh ids that the whole pod takes.
    pub(super) fresh: Amount,
}

/// A number of devices and a number of cores, asked for under their own names.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub(super) devices: u32,
    pub(super) cores: u32,
    /// Core sets that are taken afresh as a whole.
    pub(super) core_sets: u32,
}

impl Step {
    /// How many ids must come from the free ones; 0 when kubelet chooses among the handed-down ids alone.
    pub(super) fn fresh(&self) -> u32 {
        self.count.saturating_sub(self.handed)
    }
}

impl Amount {
    /// This amount and what the step takes afresh.
    pub(super) fn with(mut self, step: &Step) -> Amount {
        let sum = match step.resource {
            Resource::Device => &mut self.devices,
            Resource::Core => &mut self.cores,
        };
        *sum = sum.saturating_add(step.fresh());
        self.core_sets += u32::from(step.resource == Resource::Core && step.handed == 0);
        self
    }
}

impl Plan {
    /// Replays kubelet's hand-down on the counts of `request` (architecture §4, "Pod request").
    pub(super) fn of(request: &PodRequest) -> Plan {
        let mut plan = Plan { steps: Vec::new(), chains: 0, fresh: Amount::default() };
        let mut handed = [0u32; 2];
        let mut chain = [0usize; 2];
        for (container, asks) in request.containers.iter().enumerate() {
            for resource in Resource::ALL {
                let count = asks.count(resource);
                if count == 0 {
                    continue;
                }
                let place = resource as usize;
                if handed[place] == 0 {
                    chain[place] = plan.chains;
                    plan.chains += 1;
                }
                let keeps = !matches!(asks.role, Role::Init);
                let step =
                    Step { container, resource, count, handed: handed[place], keeps, chain: chain[place] };
                handed[place] =
                    if keeps { handed[place].saturating_sub(count) } else { handed[place].max(count) };
                plan.fresh = plan.fresh.with(&step);
                plan.steps.push(step);
            }
        }
        plan
    }

    /// Whether the node has as much free as the pod takes, wherever it lies.
    pub(super) fn has_room(&self, occupancy: &Occupancy) -> bool {
        let free_cores = u64::from(occupancy.free_cores().len());
        self.fresh.devices <= occupancy.free_devices().len() && self.all_cores(occupancy) <= free_cores
    }

    /// The pod's fresh hardware in cores.
    pub(super) fn all_cores(&self, occupancy: &Occupancy) -> u64 {
        let width = u64::from(occupancy.topology().cores_per_device());
        u64::from(self.fresh.devices) * width + u64::from(self.fresh.cores)
    }

    /// Whether the step is the only one of its chain.
    pub(super) fn is_alone(&self, step: &Step) -> bool {
        self.steps.iter().filter(|other| other.chain == step.chain).count() == 1
    }

    /// For each step the step before it that asks for the same, when the two may swap their sets freely.
    pub(super) fn twins(&self) -> Vec<Option<usize>> {
        let twin = |(at, step): (usize, &Step)| {
            let same = |other: &Step| (other.resource, other.count) == (step.resource, step.count);
            let earlier = || self.steps[..at].iter().rposition(|other| same(other) && self.is_alone(other));
            if self.is_alone(step) { earlier() } else { None }
        };
        self.steps.iter().enumerate().map(twin).collect()
    }
}

/// Free devices and cores of a node as the resource counts them.
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
