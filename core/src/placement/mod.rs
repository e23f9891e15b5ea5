//! Chooses the devices and cores of a pod on one node, or says why there are none (docs/architecture.md §4).
//! Called by the extender for filter and bind, by the device plugin for its preference, and by the tests.

mod branch_and_bound;
mod budget;
mod depth_first;
mod diagnose;
mod equal_nodes;
mod free_runs;
mod free_sets;
mod greedy;
mod hand_down;
mod keys;
mod plan;
mod problem;
mod rank;
mod refusal;
mod turn;

pub use self::budget::SearchCost;
pub use self::equal_nodes::EqualNodes;
pub use self::keys::Keys;
pub use self::rank::{Places, Rank, RankNumber, Ranks};
pub use self::refusal::Refusal;
pub use self::turn::{Given, Turn, best_set_of_pod};

use std::sync::Arc;

use self::budget::Budget;
use self::free_sets::{any_free, free_sets};
use self::keys::{PartialPlacement, Scorer};
use self::plan::{Amount, Plan};
use self::problem::{KubeletsChoice, Move, Problem};
use crate::ids::{CoreSet, DeviceSet, MAX_CORES};
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::record::{Allocation, ContainerAllocation};
use crate::request::PodRequest;
use crate::topology::Topology;

/// Up to this many Neuron containers the best placement is searched for, above it a good first one is taken.
const MAX_CONTAINERS_FOR_BEST: usize = 3;

/// The most containers of one pod that may request Neuron hardware, 128: as many as a node can have cores. A pod with
/// more is refused on every node, since a pod's author chooses how many init containers there are, and what many take
/// must not hold up other pods.
pub const MAX_CONTAINERS: usize = MAX_CORES;

/// What each container of a pod gets on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Sets, in the order of the request.
    pub containers: Vec<PlacedContainer>,
    /// How good it is.
    pub keys: Keys,
}

/// What one container gets under either name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlacedContainer {
    /// The container's name in the pod's spec.
    pub name: Arc<str>,
    /// Device ids, as many as the container requests.
    pub devices: DeviceSet,
    /// Logical core ids in host numbering, as many as the container requests.
    pub cores: CoreSet,
    /// Whether kubelet picks at least some of the ids among handed-down ones, without asking the plugin: these ids
    /// are the lowest then. Whatever it picks is a candidate set and stays inside the pod's union.
    pub provisional: bool,
}

impl Placement {
    /// Every device that the pod gets as a device.
    pub fn union_devices(&self) -> DeviceSet {
        self.containers.iter().fold(DeviceSet::EMPTY, |union, container| union.union(container.devices))
    }

    /// Every core that the pod gets as a core.
    pub fn union_cores(&self) -> CoreSet {
        self.containers.iter().fold(CoreSet::EMPTY, |union, container| union.union(container.cores))
    }

    /// Every core that the pod takes under either name.
    pub fn hardware(&self, topology: &Topology) -> CoreSet {
        topology.cores_of(self.union_devices()).union(self.union_cores())
    }

    /// What is to be recorded on the pod when it is bound to `node`, whose topology this is.
    pub fn allocation(&self, node: &str, topology: &Topology) -> Allocation {
        let given = self.containers.iter().map(|placed| {
            let given = ContainerAllocation { devices: placed.devices, cores: placed.cores };
            (placed.name.clone(), given)
        });
        Allocation { node: node.into(), lnc: topology.lnc(), containers: given.collect() }
    }
}

/// The best placement of the pod by the keys of docs/architecture.md §4. With three large containers that request Neuron hardware, or
/// more than three, it may be a good one instead of the best (docs/adr/0013-bounded-search.md).
///
/// ```
/// use std::sync::Arc;
///
/// use neuron_core::catalog::Catalog;
/// use neuron_core::occupancy::Occupancy;
/// use neuron_core::placement::place;
/// use neuron_core::request::{ContainerRequest, PodRequest, Role};
/// use neuron_core::topology::{Policy, Topology};
///
/// let inf1 = Catalog::embedded().find("inf1.6xlarge").ok_or("no such type")?;
/// let mut occupancy = Occupancy::empty(Arc::new(Topology::of(inf1, 1, Policy::Documented)?));
/// occupancy.hold("0".parse()?);
///
/// let main = ContainerRequest { name: "main".into(), role: Role::App, devices: 0, cores: 9 };
/// let placement = place(&PodRequest { containers: vec![main] }, &occupancy)?;
/// assert_eq!(placement.containers[0].cores.to_string(), "1,2,3,4,5,6,7,8,9");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Why the node cannot take the pod, in the words that the pod's FailedScheduling event shows.
pub fn place(request: &PodRequest, occupancy: &Occupancy) -> Result<Placement, Refusal> {
    place_counted(request, occupancy).0
}

/// What [`place`] answers, and what searching for it took.
pub fn place_counted(
    request: &PodRequest,
    occupancy: &Occupancy,
) -> (Result<Placement, Refusal>, SearchCost) {
    let budgets = [(); 3].map(|()| Budget::of_question());
    let placed = place_within(request, occupancy, &budgets);
    let mut cost = SearchCost::default();
    budgets.iter().for_each(|budget| cost.add(budget));
    (placed, cost)
}

/// Each search has a budget of its own: that for a good placement, that for any, and that for the best.
fn place_within(
    request: &PodRequest,
    occupancy: &Occupancy,
    [of_good, of_any, of_best]: &[Budget; 3],
) -> Result<Placement, Refusal> {
    diagnose::check_containers(request)?;
    let refused = |budget| diagnose::diagnose(request, occupancy, budget);
    let problem = Problem::new(request, occupancy, KubeletsChoice::Any).ok_or_else(|| refused(of_good))?;
    let mut scorer = Scorer::new(occupancy);
    let good = depth_first::find(&problem, Some(&mut scorer), of_good);
    // Of one set alone the best by the keys is tried first.
    let is_best = good.is_some() && problem.plan.steps.len() == 1;
    // What `fits` has found is found again, though perhaps not a good one.
    let any = || depth_first::find(&problem, None, of_any);
    let mut moves = good.or_else(any).ok_or_else(|| refused(of_any))?;
    if !is_best && request.containers.len() <= MAX_CONTAINERS_FOR_BEST {
        moves = branch_and_bound::best(&problem, &mut scorer, moves, of_best);
    }
    Ok(placement(request, &problem, &mut scorer, &moves))
}

/// Whether [`place`] finds a placement, cheap enough to ask of every node.
///
/// ```
/// use std::sync::Arc;
///
/// use neuron_core::catalog::Catalog;
/// use neuron_core::occupancy::Occupancy;
/// use neuron_core::placement::fits;
/// use neuron_core::request::{ContainerRequest, PodRequest, Role};
/// use neuron_core::topology::{Policy, Topology};
///
/// let inf2 = Catalog::embedded().find("inf2.24xlarge").ok_or("no such type")?;
/// let mut occupancy = Occupancy::empty(Arc::new(Topology::of(inf2, 1, Policy::Documented)?));
/// let main = ContainerRequest { name: "main".into(), role: Role::App, devices: 3, cores: 0 };
/// let request = PodRequest { containers: vec![main] };
/// assert_eq!(fits(&request, &occupancy), Ok(()));
///
/// // One core of each of the devices 1, 3 and 5.
/// occupancy.hold("2,6,10".parse()?);
/// assert_eq!(
///     fits(&request, &occupancy).map_err(|refusal| refusal.to_string()),
///     Err("no linked set of 3 free Neuron devices: 3 free, the largest linked set has 1".to_owned())
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The same refusal as [`place`].
pub fn fits(request: &PodRequest, occupancy: &Occupancy) -> Result<(), Refusal> {
    diagnose::check_containers(request)?;
    let budget = Budget::of_question();
    if is_possible(request, occupancy, KubeletsChoice::Any, &budget) {
        return Ok(());
    }
    Err(diagnose::diagnose(request, occupancy, &budget))
}

/// The best candidate set of `count` of the resource that contains the cores `must` and otherwise lies in the free
/// part of `within`, as cores; nothing if there is none. What the device plugin prefers for a container that has no other
/// after it, when no record says.
pub fn best_set(
    occupancy: &Occupancy,
    resource: Resource,
    count: u32,
    must: CoreSet,
    within: CoreSet,
) -> Option<CoreSet> {
    let usable = must.union(occupancy.free_cores().intersection(within));
    let sets = free_sets(occupancy.topology(), resource, count, usable);
    let sets = sets.filter(|set| must.is_subset(set.cores));
    let mut scorer = Scorer::new(occupancy);
    let best = scorer.best(sets, resource, &PartialPlacement::default(), Amount::default());
    best.map(|set| set.cores)
}

/// Whether the pod fits, unless the budget is spent: then it may all the same. One container that requests one resource, the common
/// case, allocates nothing.
fn is_possible(
    request: &PodRequest,
    occupancy: &Occupancy,
    kubelets_choice: KubeletsChoice,
    budget: &Budget,
) -> bool {
    any_free_for_one(request, occupancy).unwrap_or_else(|| {
        let plan = Plan::of(request);
        if !plan.enough_is_free(occupancy) {
            return false;
        }
        // Without a move left nothing is tried: thousands of nodes may come after the one that took the last.
        if budget.give_up_if_used_up() {
            return false;
        }
        greedy::fits(&plan, occupancy, budget)
            || Problem::of_plan(plan, occupancy, kubelets_choice)
                .is_some_and(|problem| depth_first::find(&problem, None, budget).is_some())
    })
}

/// Whether a pod of one container that requests one resource fits; nothing of any other pod.
fn any_free_for_one(request: &PodRequest, occupancy: &Occupancy) -> Option<bool> {
    let [only] = request.containers.as_slice() else { return None };
    match (only.devices, only.cores) {
        (devices, 0) => Some(any_free(occupancy, Resource::Device, devices)),
        (0, cores) => Some(any_free(occupancy, Resource::Core, cores)),
        _ => None,
    }
}

fn placement(request: &PodRequest, problem: &Problem<'_>, scorer: &mut Scorer, moves: &[Move]) -> Placement {
    let named = |name: &Arc<str>| PlacedContainer { name: Arc::clone(name), ..PlacedContainer::default() };
    let mut containers: Vec<_> = request.containers.iter().map(|requested| named(&requested.name)).collect();
    for (step, made) in problem.plan.steps.iter().zip(moves) {
        let container = &mut containers[step.container];
        container.provisional |= made.provisional;
        match step.resource {
            Resource::Device => container.devices = made.set.devices,
            Resource::Core => container.cores = made.set.cores,
        }
    }
    let ids = containers.iter().flat_map(|given| given.devices.iter().chain(given.cores.iter()));
    let keys = Keys { ids: ids.collect(), ..scorer.keys(&PartialPlacement::of(&problem.plan, moves)) };
    Placement { containers, keys }
}
