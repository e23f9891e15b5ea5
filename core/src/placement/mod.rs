//! Chooses the devices and cores of a pod on one node, or says why there are none (architecture §4).
//! Called by the extender for filter and bind, by the device plugin for its preference, and by the tests.

mod best;
mod free_runs;
mod free_sets;
mod hand_down;
mod keys;
mod plan;
mod refusal;
mod search;

pub use self::keys::Keys;
pub use self::refusal::Refusal;

use self::free_sets::{Candidates, any_free};
use self::keys::{Scorer, Tally};
use self::plan::Amount;
use self::search::{Move, Problem, Shape};
use crate::ids::{CoreSet, DeviceSet, MAX_CORES};
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::request::PodRequest;
use crate::topology::Topology;

/// Up to this many Neuron containers the placement is the best of all, above it a good first one.
const MOST_CONTAINERS_FOR_BEST: usize = 3;

/// A pod with more containers that ask for Neuron hardware is refused, wherever it would go: as many as a node can have
/// cores. A pod's author chooses how many init containers there are, and what many take must not hold up others.
pub const MOST_CONTAINERS: usize = MAX_CORES;

/// What each container of a pod gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// In the order of the request.
    pub containers: Vec<PlacedContainer>,
    /// How good it is.
    pub keys: Keys,
}

/// What one container gets under either name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedContainer {
    /// The container's name.
    pub name: String,
    /// Its device ids.
    pub devices: DeviceSet,
    /// Its logical core ids, host numbering.
    pub cores: CoreSet,
    /// kubelet picks at least some of the ids among handed-down ones and asks nobody: these are provisional,
    /// the lowest. Whatever it picks is allowed and stays inside the pod's union.
    pub any: bool,
}

impl Placement {
    /// Every device that the pod gets under the devices' name.
    pub fn union_devices(&self) -> DeviceSet {
        self.containers.iter().fold(DeviceSet::EMPTY, |union, container| union.union(container.devices))
    }

    /// Every core that the pod gets under the cores' name.
    pub fn union_cores(&self) -> CoreSet {
        self.containers.iter().fold(CoreSet::EMPTY, |union, container| union.union(container.cores))
    }

    /// Every core that the pod takes under either name.
    pub fn hardware(&self, topology: &Topology) -> CoreSet {
        topology.cores_of(self.union_devices()).union(self.union_cores())
    }
}

/// The best placement of the pod by the keys of architecture §4, or the reason why there is none.
pub fn place(request: &PodRequest, occupancy: &Occupancy) -> Result<Placement, Refusal> {
    if let Some(refusal) = refusal::too_many(request) {
        return Err(refusal);
    }
    let refused = || refusal::why(request, occupancy);
    let Some(problem) = Problem::new(request, occupancy, Shape::Checked) else { return Err(refused()) };
    let mut scorer = Scorer::new(occupancy);
    let Some(mut moves) = problem.first(Some(&mut scorer)) else { return Err(refused()) };
    if request.containers.len() <= MOST_CONTAINERS_FOR_BEST {
        moves = best::best(&problem, &mut scorer, moves);
    }
    Ok(placement(request, &problem, &mut scorer, &moves))
}

/// The same answer as [`place`] without the placement, cheap enough to ask of every node.
pub fn fits(request: &PodRequest, occupancy: &Occupancy) -> Result<(), Refusal> {
    if let Some(refusal) = refusal::too_many(request) {
        return Err(refusal);
    }
    if is_possible(request, occupancy, Shape::Checked) {
        return Ok(());
    }
    Err(refusal::why(request, occupancy))
}

/// The best allowed set of `count` of the resource that contains the cores `must` and otherwise lies in the
/// free part of `within`, as cores; nothing if there is none. What the plugin prefers when no record says.
pub fn best_set(
    occupancy: &Occupancy,
    resource: Resource,
    count: u32,
    must: CoreSet,
    within: CoreSet,
) -> Option<CoreSet> {
    let open = must.union(occupancy.free_cores().intersection(within));
    let candidates = Candidates::new(occupancy.topology(), resource, count, open);
    let mut scorer = Scorer::new(occupancy);
    let fitting = candidates.sets.iter().filter(|set| must.is_subset(set.cores));
    let best = fitting.min_by_key(|set| {
        let tally = Tally::default().with(resource, set);
        (scorer.bound(&tally, Amount::default()), scorer.hits(&tally))
    });
    best.map(|set| set.cores)
}

/// Whether the pod fits. One container that asks under one name, the common case, allocates nothing.
fn is_possible(request: &PodRequest, occupancy: &Occupancy, shape: Shape) -> bool {
    if let [only] = request.containers.as_slice() {
        match (only.devices, only.cores) {
            (devices, 0) => return any_free(occupancy, Resource::Device, devices),
            (0, cores) => return any_free(occupancy, Resource::Core, cores),
            _ => {}
        }
    }
    Problem::new(request, occupancy, shape).is_some_and(|problem| problem.first(None).is_some())
}

fn placement(request: &PodRequest, problem: &Problem<'_>, scorer: &mut Scorer, moves: &[Move]) -> Placement {
    let named = |name: &String| PlacedContainer { name: name.clone(), ..PlacedContainer::default() };
    let mut containers: Vec<_> = request.containers.iter().map(|asks| named(&asks.name)).collect();
    let mut tally = Tally::default();
    for (step, taken) in problem.plan.steps.iter().zip(moves) {
        tally = tally.with(step.resource, &taken.set);
        let container = &mut containers[step.container];
        container.any |= taken.any;
        match step.resource {
            Resource::Device => container.devices = taken.set.devices,
            Resource::Core => container.cores = taken.set.cores,
        }
    }
    let [whole_devices_entered, devices_touched, cores_left_over, mid_device_starts] =
        scorer.bound(&tally, Amount::default());
    let ids = containers.iter().flat_map(|given| given.devices.iter().chain(given.cores.iter()));
    let keys = Keys {
        whole_devices_entered,
        devices_touched,
        cores_left_over,
        mid_device_starts,
        free_sets_hit: scorer.hits(&tally).to_vec(),
        ids: ids.collect(),
    };
    Placement { containers, keys }
}
