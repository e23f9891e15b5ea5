//! One container's turn amid its pod's admission: the set to prefer for it so that the containers after it can have theirs, too.
//! Asked by the device plugin where no record says.

use super::budget::Budget;
use super::depth_first;
use super::diagnose::check_containers;
use super::keys::Scorer;
use super::plan::Plan;
use super::problem::Problem;
use crate::ids::CoreSet;
use crate::names::Resource;
use crate::occupancy::Occupancy;
use crate::request::PodRequest;

/// How many moves are tried, some ten milliseconds of them: kubelet does nothing else meanwhile.
const MAX_TRIES: u32 = 20_000;

/// What a container has got already: its index in the request, the resource, and the cores of its ids.
pub type Given = (usize, Resource, CoreSet);

/// A container that kubelet is about to give ids to.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// What the whole pod requests.
    pub request: &'a PodRequest,
    /// What its containers have got already.
    pub given: &'a [Given],
    /// Index of the container in the request.
    pub container: usize,
    /// What it is given now.
    pub resource: Resource,
    /// The cores that are to be among them: what init containers hand down.
    pub must: CoreSet,
    /// The cores that kubelet takes for free.
    pub within: CoreSet,
}

/// The cores to prefer for the container whose turn it is, with which the whole pod can be placed; nothing if no such set is found.
/// What the pod has got already may be held in `occupancy`.
pub fn best_set_of_pod(occupancy: &Occupancy, turn: &Turn<'_>) -> Option<CoreSet> {
    check_containers(turn.request).ok()?;
    let at = |container, resource| {
        let steps = Plan::of(turn.request).steps;
        steps.iter().position(|step| (step.container, step.resource) == (container, resource))
    };
    let asking = at(turn.container, turn.resource)?;
    let given =
        turn.given.iter().map(|(container, resource, cores)| Some((at(*container, *resource)?, *cores)));
    let given = given.collect::<Option<Vec<(usize, CoreSet)>>>()?;
    let allowed = turn.must.union(turn.within);
    let problem = Problem::amid_admission(turn.request, occupancy, &given, (asking, turn.must, allowed))?;
    let moves = depth_first::find(&problem, Some(&mut Scorer::new(occupancy)), &Budget::of(MAX_TRIES))?;
    Some(moves.get(asking)?.set.cores)
}
