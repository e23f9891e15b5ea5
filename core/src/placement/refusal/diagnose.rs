//! Finds out why a pod does not fit a node. Called by `place` and `fits` once they know that it does not.

use std::sync::Arc;

use super::Refusal;
use crate::ids::DeviceSet;
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::placement::plan::{Plan, free_of, total_of};
use crate::placement::search::Shape;
use crate::placement::{MOST_CONTAINERS, is_possible};
use crate::request::{ContainerRequest, PodRequest};

/// The reason, the one first that only another request can cure. `request` does not fit.
pub(crate) fn why(request: &PodRequest, occupancy: &Occupancy) -> Refusal {
    let empty = Occupancy::empty(Arc::clone(occupancy.topology()));
    let plan = Plan::of(request);
    unsupported(request, occupancy)
        .or_else(|| not_enough(&plan, &empty, occupancy))
        .or_else(|| never_together(request, &plan, &empty))
        .or_else(|| unhealthy(request, occupancy))
        .or_else(|| not_enough(&plan, occupancy, occupancy))
        .or_else(|| init_shape(request, &plan, occupancy, false))
        .or_else(|| not_linked(request, occupancy))
        .unwrap_or_else(|| shortage(&plan, occupancy, occupancy))
}

/// Asked before anything else: all else takes time that grows with the containers.
pub(crate) fn too_many(request: &PodRequest) -> Option<Refusal> {
    let containers = request.containers.len();
    (containers > MOST_CONTAINERS).then_some(Refusal::TooManyContainers { containers })
}

fn unsupported(request: &PodRequest, occupancy: &Occupancy) -> Option<Refusal> {
    let topology = occupancy.topology();
    let asked = request.containers.iter().flat_map(|asks| Resource::ALL.map(|r| (r, asks.count(r))));
    let mut unsupported = asked.filter(|&(resource, count)| count > 0 && !topology.supports(resource, count));
    let instance_type = topology.instance_type().to_owned();
    unsupported.next().map(|(resource, asked)| Refusal::UnsupportedCount { instance_type, resource, asked })
}

/// When `room`, the node or the node emptied, has less than the pod takes; the figures are the node's.
fn not_enough(plan: &Plan, room: &Occupancy, occupancy: &Occupancy) -> Option<Refusal> {
    (!plan.has_room(room)).then(|| shortage(plan, room, occupancy))
}

fn shortage(plan: &Plan, room: &Occupancy, occupancy: &Occupancy) -> Refusal {
    let (resource, asked, beside) = if plan.fresh.devices > free_of(room, Resource::Device) {
        (Resource::Device, plan.fresh.devices, 0)
    } else if plan.fresh.cores > free_of(room, Resource::Core) {
        (Resource::Core, plan.fresh.cores, 0)
    } else {
        (Resource::Core, plan.fresh.cores, plan.fresh.devices)
    };
    Refusal::NotEnough {
        resource,
        asked,
        free: free_of(occupancy, resource),
        total: total_of(occupancy, resource),
        beside,
        permanent: !plan.has_room(&Occupancy::empty(Arc::clone(occupancy.topology()))),
    }
}

fn never_together(request: &PodRequest, plan: &Plan, empty: &Occupancy) -> Option<Refusal> {
    if is_possible(request, empty, Shape::Checked) {
        return None;
    }
    init_shape(request, plan, empty, true).or_else(|| {
        let misfit = misfit(request, empty)?;
        Some(Refusal::NeverTogether {
            instance_type: empty.topology().instance_type().to_owned(),
            container: misfit.name().to_owned(),
            resource: misfit.resource,
            asked: misfit.asked(),
        })
    })
}

fn unhealthy(request: &PodRequest, occupancy: &Occupancy) -> Option<Refusal> {
    let fits_with = |healed: DeviceSet| {
        let mut healthier = occupancy.clone();
        healthier.set_unhealthy(occupancy.unhealthy().difference(healed));
        is_possible(request, &healthier, Shape::Checked)
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

/// When only kubelet's free choices stand in the way.
fn init_shape(request: &PodRequest, plan: &Plan, occupancy: &Occupancy, permanent: bool) -> Option<Refusal> {
    if !is_possible(request, occupancy, Shape::Ignored) {
        return None;
    }
    let misfit = misfit(request, occupancy)?;
    let place = misfit.before.containers.len();
    let step = plan.steps.iter().find(|step| step.container == place && step.resource == misfit.resource)?;
    Some(Refusal::InitShape {
        container: misfit.name().to_owned(),
        resource: misfit.resource,
        asked: step.count,
        handed_down: step.handed,
        permanent,
    })
}

fn not_linked(request: &PodRequest, occupancy: &Occupancy) -> Option<Refusal> {
    let misfit = misfit(request, occupancy)?;
    let fits = |count: &u32| is_possible(&misfit.with(*count), occupancy, Shape::Checked);
    Some(Refusal::NotLinked {
        container: (request.containers.len() > 1).then(|| misfit.name().to_owned()),
        resource: misfit.resource,
        asked: misfit.asked(),
        free: free_of(occupancy, misfit.resource),
        largest: (1..misfit.asked()).rev().find(fits).unwrap_or(0),
    })
}

/// The first container, in kubelet's order, that does not fit beside those before it.
struct Misfit<'a> {
    before: PodRequest,
    container: &'a ContainerRequest,
    resource: Resource,
}

impl Misfit<'_> {
    fn name(&self) -> &str {
        &self.container.name
    }

    fn asked(&self) -> u32 {
        self.container.count(self.resource)
    }

    /// The containers up to this one, which asks for `count` instead, and for nothing that comes later.
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

/// Nothing if `request` fits `occupancy` after all. Whatever fits still does without its last container, so the first
/// misfit is looked for by halves: each look is a search of its own.
fn misfit<'a>(request: &'a PodRequest, occupancy: &Occupancy) -> Option<Misfit<'a>> {
    let asks = |place: usize| Resource::ALL.map(|resource| (place, resource));
    let mut asked: Vec<(usize, Resource)> = (0..request.containers.len()).flat_map(asks).collect();
    asked.retain(|&(place, resource)| request.containers[place].count(resource) > 0);
    let up_to = |&(place, resource): &(usize, Resource)| Misfit {
        before: PodRequest { containers: request.containers[..place].to_vec() },
        container: &request.containers[place],
        resource,
    };
    let fits = |at: &(usize, Resource)| {
        let tried = up_to(at);
        is_possible(&tried.with(tried.asked()), occupancy, Shape::Checked)
    };
    asked.get(asked.partition_point(fits)).map(up_to)
}
