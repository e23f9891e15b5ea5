//! Finds out why a pod does not fit a node. Called by `place` and `fits` once they know that it does not.

use std::sync::Arc;

use super::budget::Budget;
use super::plan::{Plan, free_of, total_of};
use super::problem::KubeletsChoice;
use super::{MAX_CONTAINERS, Refusal, is_possible};
use crate::ids::DeviceSet;
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::request::{ContainerRequest, PodRequest};
use crate::topology::Topology;

/// What an empty node of one topology answers about a request: the same for every node that has the topology.
#[derive(Clone, Debug)]
pub(super) enum WhenEmpty {
    /// The pod fits there.
    Fits,
    /// It has less than the pod takes. The refusal says how much is free, which differs from node to node.
    TooSmall,
    /// No node of the topology takes the pod, for this reason.
    Never(Refusal),
}

impl WhenEmpty {
    /// The answer about `request`. Where not even the empty node is decided, no other is searched.
    pub(super) fn of(request: &PodRequest, topology: &Arc<Topology>, budget: &Budget) -> WhenEmpty {
        if let Err(refusal) = check_containers(request) {
            return WhenEmpty::Never(refusal);
        }
        if let Some(refusal) = unsupported_count(request, topology) {
            return WhenEmpty::Never(refusal);
        }
        let (empty, plan) = (Occupancy::empty(Arc::clone(topology)), Plan::of(request));
        if !plan.enough_is_free(&empty) {
            return WhenEmpty::TooSmall;
        }
        let never = never_together(request, &plan, &empty, budget);
        if budget.is_spent() {
            return WhenEmpty::Never(not_decided(request));
        }
        never.map_or(WhenEmpty::Fits, WhenEmpty::Never)
    }

    /// Why `request`, about which this is the answer and which does not fit, is refused: of several reasons the one first
    /// that only another request can cure.
    pub(super) fn diagnose(&self, request: &PodRequest, occupancy: &Occupancy, budget: &Budget) -> Refusal {
        let plan = Plan::of(request);
        match self {
            WhenEmpty::Never(refusal) => return refusal.clone(),
            WhenEmpty::TooSmall => {
                return shortage(&plan, &Occupancy::empty(Arc::clone(occupancy.topology())), occupancy);
            }
            WhenEmpty::Fits => {}
        }
        // What was not found by a search that was given up may be there, and no reason is looked for. What is free is counted.
        let given_up = || not_enough(&plan, occupancy).unwrap_or_else(|| not_decided(request));
        if budget.is_spent() {
            return given_up();
        }
        let reason = unhealthy(request, occupancy, budget)
            .or_else(|| not_enough(&plan, occupancy))
            .or_else(|| hand_down_not_safe(request, &plan, (occupancy, budget), false))
            .or_else(|| not_linked(request, occupancy, budget));
        // Nor is a reason sure that was found by one.
        if budget.is_spent() {
            return given_up();
        }
        reason.unwrap_or_else(|| shortage(&plan, occupancy, occupancy))
    }
}

/// Why `request`, which does not fit or was not found to within the budget, is refused.
pub(super) fn diagnose(request: &PodRequest, occupancy: &Occupancy, budget: &Budget) -> Refusal {
    WhenEmpty::of(request, occupancy.topology(), budget).diagnose(request, occupancy, budget)
}

fn not_decided(request: &PodRequest) -> Refusal {
    Refusal::NotDecided { containers: request.containers.len() }
}

/// Checked before anything else: all else takes time that grows with the containers.
pub(super) fn check_containers(request: &PodRequest) -> Result<(), Refusal> {
    let containers = request.containers.len();
    if containers > MAX_CONTAINERS {
        return Err(Refusal::TooManyContainers { containers });
    }
    Ok(())
}

fn unsupported_count(request: &PodRequest, topology: &Topology) -> Option<Refusal> {
    let mut counts =
        request.containers.iter().flat_map(|requested| Resource::ALL.map(|r| (r, requested.count(r))));
    let (resource, requested) =
        counts.find(|&(resource, count)| count > 0 && !topology.supports(resource, count))?;
    Some(Refusal::UnsupportedCount {
        instance_type: topology.instance_type().to_owned(),
        resource,
        requested,
    })
}

/// When the node has less free than the pod takes.
fn not_enough(plan: &Plan, node: &Occupancy) -> Option<Refusal> {
    (!plan.enough_is_free(node)).then(|| shortage(plan, node, node))
}

/// What `in_question`, the node or the node emptied, has too little of; the figures are the node's.
fn shortage(plan: &Plan, in_question: &Occupancy, node: &Occupancy) -> Refusal {
    let (resource, requested, beside) = if plan.fresh.devices > free_of(in_question, Resource::Device) {
        (Resource::Device, plan.fresh.devices, 0)
    } else if plan.fresh.cores > free_of(in_question, Resource::Core) {
        (Resource::Core, plan.fresh.cores, 0)
    } else {
        (Resource::Core, plan.fresh.cores, plan.fresh.devices)
    };
    Refusal::NotEnough {
        resource,
        requested,
        free: free_of(node, resource),
        total: total_of(node, resource),
        beside,
        permanent: !plan.enough_is_free(&Occupancy::empty(Arc::clone(node.topology()))),
    }
}

fn never_together(request: &PodRequest, plan: &Plan, empty: &Occupancy, budget: &Budget) -> Option<Refusal> {
    if is_possible(request, empty, KubeletsChoice::Any, budget) {
        return None;
    }
    hand_down_not_safe(request, plan, (empty, budget), true).or_else(|| {
        let unplaced = first_unplaced(request, empty, budget)?;
        Some(Refusal::NeverTogether {
            instance_type: empty.topology().instance_type().to_owned(),
            container: unplaced.name().to_owned(),
            resource: unplaced.resource,
            requested: unplaced.requested(),
        })
    })
}

fn unhealthy(request: &PodRequest, occupancy: &Occupancy, budget: &Budget) -> Option<Refusal> {
    let fits_with = |healed: DeviceSet| {
        let mut healthier = occupancy.clone();
        healthier.set_unhealthy(occupancy.unhealthy().difference(healed));
        is_possible(request, &healthier, KubeletsChoice::Any, budget)
    };
    let mut needed = occupancy.unhealthy();
    if needed.is_empty() || !fits_with(needed) {
        return None;
    }
    let mut from_the_top: Vec<u8> = needed.iter().collect();
    from_the_top.reverse();
    for device in from_the_top {
        let fewer = needed.difference(DeviceSet::single(device));
        if fits_with(fewer) {
            needed = fewer;
        }
    }
    Some(Refusal::Unhealthy { devices: needed })
}

/// When the pod would fit if kubelet chose well among handed-down ids.
fn hand_down_not_safe(
    request: &PodRequest,
    plan: &Plan,
    (occupancy, budget): (&Occupancy, &Budget),
    permanent: bool,
) -> Option<Refusal> {
    if !is_possible(request, occupancy, KubeletsChoice::Good, budget) {
        return None;
    }
    let unplaced = first_unplaced(request, occupancy, budget)?;
    let index = unplaced.before.containers.len();
    let step =
        plan.steps.iter().find(|step| step.container == index && step.resource == unplaced.resource)?;
    Some(Refusal::HandDownNotSafe {
        container: unplaced.name().to_owned(),
        resource: unplaced.resource,
        requested: step.count,
        handed_down: step.handed_down,
        permanent,
    })
}

fn not_linked(request: &PodRequest, occupancy: &Occupancy, budget: &Budget) -> Option<Refusal> {
    let unplaced = first_unplaced(request, occupancy, budget)?;
    let fits = |count: &u32| is_possible(&unplaced.with(*count), occupancy, KubeletsChoice::Any, budget);
    Some(Refusal::NotLinked {
        container: (request.containers.len() > 1).then(|| unplaced.name().to_owned()),
        resource: unplaced.resource,
        requested: unplaced.requested(),
        free: free_of(occupancy, unplaced.resource),
        largest: (1..unplaced.requested()).rev().find(fits).unwrap_or(0),
    })
}

/// A container's request of one resource, with the containers before it in kubelet's order.
struct Unplaced<'a> {
    before: PodRequest,
    container: &'a ContainerRequest,
    resource: Resource,
}

impl Unplaced<'_> {
    fn name(&self) -> &str {
        &self.container.name
    }

    fn requested(&self) -> u32 {
        self.container.count(self.resource)
    }

    /// The containers up to this one, which requests `count` instead, and nothing that comes later.
    fn with(&self, count: u32) -> PodRequest {
        let (devices, cores) = match self.resource {
            Resource::Device => (count, 0),
            Resource::Core => (self.container.devices, count),
        };
        let mut request = self.before.clone();
        request.containers.push(ContainerRequest { devices, cores, ..self.container.clone() });
        request
    }
}

/// The first request, in kubelet's order, that does not fit beside those before it; nothing if the pod fits after
/// all. Whatever fits still does without its last request, so the first one is looked for by halves: each look is a
/// search of its own.
fn first_unplaced<'a>(
    request: &'a PodRequest,
    occupancy: &Occupancy,
    budget: &Budget,
) -> Option<Unplaced<'a>> {
    let both = |index: usize| Resource::ALL.map(|resource| (index, resource));
    let mut requests: Vec<(usize, Resource)> = (0..request.containers.len()).flat_map(both).collect();
    requests.retain(|&(index, resource)| request.containers[index].count(resource) > 0);
    let unplaced = |&(index, resource): &(usize, Resource)| Unplaced {
        before: PodRequest { containers: request.containers[..index].to_vec() },
        container: &request.containers[index],
        resource,
    };
    let fits = |at: &(usize, Resource)| {
        let tried = unplaced(at);
        is_possible(&tried.with(tried.requested()), occupancy, KubeletsChoice::Any, budget)
    };
    requests.get(requests.partition_point(fits)).map(unplaced)
}
