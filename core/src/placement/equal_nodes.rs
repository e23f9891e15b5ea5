//! What equal nodes answer about one request, worked out once for all of them: most nodes of a large cluster are empty, full
//! or held alike. Asked by the extender, which looks at every node of a call, and keeps the answers for pods that request the same.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::budget::{Budget, MOVES, SearchCost};
use super::diagnose::WhenEmpty;
use super::problem::KubeletsChoice;
use super::{Refusal, is_possible};
use crate::ids::{CoreSet, DeviceSet};
use crate::occupancy::Occupancy;
use crate::request::PodRequest;
use crate::topology::Topology;

/// Moves of all questions about one pod together, less than half a second of them. What nodes that come later answer is then not
/// searched for.
const MOVES_OF_CALL: u32 = 20 * MOVES;

/// Whether a pod with one request fits, for any number of nodes.
#[derive(Debug)]
pub struct EqualNodes {
    request: PodRequest,
    /// Those met so far, as many as the cluster has kinds of nodes, and what an empty node of each answers. Weak, since whoever keeps
    /// the answers is not to keep topologies that no node has any more.
    topologies: Vec<(Weak<Topology>, Answer<WhenEmpty>)>,
    answers: FxHashMap<Equal, Answer<Result<(), Refusal>>>,
    /// Of this call so far, of [`MOVES_OF_CALL`].
    cost: SearchCost,
}

/// What a search led to.
#[derive(Debug)]
struct Answer<T> {
    answer: T,
    /// Whether it was given up for want of moves in its call, and has to be searched for again in another. One that had a question's whole
    /// [`MOVES`] has not: it would be given up again, and others would never have their turn.
    is_cut: bool,
}

/// All of a node that decides the answer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Equal {
    /// Index among the topologies met so far.
    pub(super) topology: usize,
    /// Logical cores that are held.
    pub(super) held: CoreSet,
    /// Devices that are not served.
    pub(super) unhealthy: DeviceSet,
}

impl EqualNodes {
    /// Nothing is known yet.
    pub fn new(request: &PodRequest) -> Self {
        Self {
            request: request.clone(),
            topologies: Vec::new(),
            answers: FxHashMap::default(),
            cost: SearchCost::default(),
        }
    }

    /// Begins another call about a pod with the same request. What was searched for stays, so that a call which ran out of moves is gone
    /// on with; nothing does where a topology went with its last node: new ones may come and go for ever.
    pub fn renew(&mut self) {
        if self.topologies.iter().any(|(known, _)| known.strong_count() == 0) {
            self.topologies.clear();
            self.answers.clear();
        }
        self.cost = SearchCost::default();
    }

    /// Whether this call has no moves left for another node, so that those refused as not decided may be searched for in another call.
    pub fn is_spent(&self) -> bool {
        self.cost.moves > MOVES_OF_CALL - MOVES
    }

    /// Number of answers and topologies that are kept.
    pub fn kept(&self) -> usize {
        self.answers.len() + self.topologies.len()
    }

    /// What the pod requests.
    pub fn request(&self) -> &PodRequest {
        &self.request
    }

    /// What searching for it took in this call so far.
    pub fn cost(&self) -> SearchCost {
        self.cost
    }

    /// What [`fits`](super::fits) answers about a node with this occupancy.
    ///
    /// # Errors
    /// The refusal of [`fits`](super::fits).
    pub fn fits(&mut self, occupancy: &Occupancy) -> Result<(), Refusal> {
        let topology = self.index(occupancy.topology());
        let request = &self.request;
        let when_empty = &self.topologies[topology].1.answer;
        // What an empty node refuses every node does, and needs no search: such a pod waits for ever, and is asked about
        // again and again.
        if !matches!(when_empty, WhenEmpty::Fits) {
            return Err(when_empty.diagnose(request, occupancy, &Budget::of_question()));
        }
        let is_spent = self.is_spent();
        let equal = Equal { topology, held: occupancy.held(), unhealthy: occupancy.unhealthy() };
        if let Some(known) = self.answers.get(&equal).filter(|known| !known.is_cut || is_spent) {
            return known.answer.clone();
        }
        let budget = self.cost.next(MOVES_OF_CALL, MOVES);
        let answer = match is_possible(request, occupancy, KubeletsChoice::Any, &budget) {
            true => Ok(()),
            false => Err(when_empty.diagnose(request, occupancy, &budget)),
        };
        self.cost.add(&budget);
        let is_cut = is_spent && matches!(answer, Err(Refusal::NotDecided { .. }));
        self.answers.insert(equal, Answer { answer: answer.clone(), is_cut });
        answer
    }

    fn index(&mut self, topology: &Arc<Topology>) -> usize {
        let is_spent = self.is_spent();
        let known = self.topologies.iter().position(|(known, _)| known.as_ptr() == Arc::as_ptr(topology));
        if let Some(known) = known
            && (!self.topologies[known].1.is_cut || is_spent)
        {
            return known;
        }
        let budget = self.cost.next(MOVES_OF_CALL, MOVES);
        let answer = WhenEmpty::of(&self.request, topology, &budget);
        self.cost.add(&budget);
        let is_cut = is_spent && matches!(answer, WhenEmpty::Never(Refusal::NotDecided { .. }));
        let answer = Answer { answer, is_cut };
        match known {
            Some(known) => {
                self.topologies[known].1 = answer;
                known
            }
            None => {
                self.topologies.push((Arc::downgrade(topology), answer));
                self.topologies.len() - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;
    use crate::request::{ContainerRequest, Role};
    use crate::topology::Policy;

    #[test]
    fn answers_stay_for_another_call_as_long_as_their_topologies_do() {
        let main = ContainerRequest { name: "main".into(), role: Role::App, devices: 4, cores: 0 };
        let mut equal_nodes = EqualNodes::new(&PodRequest { containers: vec![main] });
        let model = Catalog::embedded().find("trn1.32xlarge").unwrap();
        let topology = Arc::new(Topology::of(model, 1, Policy::Documented).unwrap());
        assert_eq!(equal_nodes.fits(&Occupancy::empty(Arc::clone(&topology))), Ok(()));
        equal_nodes.renew();
        assert_eq!(equal_nodes.kept(), 2, "an answer and its topology");
        drop(topology);
        equal_nodes.renew();
        assert_eq!(equal_nodes.kept(), 0);
    }

    #[test]
    fn nodes_that_come_after_the_moves_of_a_call_are_spent_are_not_searched() {
        let container =
            |name: &str| ContainerRequest { name: name.into(), role: Role::App, devices: 4, cores: 0 };
        let request = PodRequest { containers: vec![container("one"), container("other")] };
        let model = Catalog::embedded().find("trn1.32xlarge").unwrap();
        let topology = Arc::new(Topology::of(model, 1, Policy::Documented).unwrap());
        // All unlike, and each with two free rows.
        let nodes = (0..200u32).map(|bits| {
            let mut node = Occupancy::empty(Arc::clone(&topology));
            node.hold((0..8).filter(|core| bits >> core & 1 == 1).collect());
            node
        });
        let cost = SearchCost { moves: MOVES_OF_CALL - 100, given_up: 0 };
        let mut equal_nodes = EqualNodes { cost, ..EqualNodes::new(&request) };
        let answers: Vec<_> = nodes.clone().map(|node| equal_nodes.fits(&node)).collect();
        let decided = answers.iter().take_while(|answer| answer.is_ok()).count();
        assert!((10..190).contains(&decided), "{decided}");
        let given_up = Err(Refusal::NotDecided { containers: 2 });
        assert!(answers[decided..].iter().all(|answer| *answer == given_up), "{answers:?}");
        assert_eq!(equal_nodes.fits(&nodes.clone().next().unwrap()), Ok(()), "what was found stays");
        let given_up = u32::try_from(200 - decided).unwrap();
        assert_eq!(equal_nodes.cost(), SearchCost { moves: MOVES_OF_CALL, given_up });
        // What is free is counted, not searched for.
        let mut full = Occupancy::empty(Arc::clone(&topology));
        full.hold(topology.all_cores());
        assert!(matches!(equal_nodes.fits(&full), Err(Refusal::NotEnough { free: 0, .. })));
        assert_eq!(equal_nodes.cost().given_up, given_up);
        // kube-scheduler asks again: the next call has its moves for the nodes that this one did not come to.
        equal_nodes.renew();
        assert!(nodes.clone().all(|node| equal_nodes.fits(&node).is_ok()));
    }

    #[test]
    fn nodes_that_are_never_decided_keep_no_other_from_its_turn() {
        let container =
            |role: Role, cores: u32| ContainerRequest { name: "c".into(), role, devices: 0, cores };
        let apps = [&[1][..], &[3; 15], &[2, 2]].concat();
        let apps = apps.into_iter().map(|cores| container(Role::App, cores));
        let request = PodRequest { containers: [container(Role::Init, 1)].into_iter().chain(apps).collect() };
        let model = Catalog::embedded().find("trn2.48xlarge").unwrap();
        let topology = Arc::new(Topology::of(model, 2, Policy::Documented).unwrap());
        let node = |held: &[u8]| {
            let mut node = Occupancy::empty(Arc::clone(&topology));
            node.hold(held.iter().copied().collect());
            node
        };
        // Of one device no three cores in a row are free.
        let undecided: Vec<Occupancy> = (0..25u8).map(|at| node(&[at / 2 * 4 + 1 + at % 2])).collect();
        let mut equal_nodes = EqualNodes::new(&request);
        let mut call = || {
            equal_nodes.renew();
            let refused = undecided.iter().filter(|node| equal_nodes.fits(node).is_err()).count();
            (refused, equal_nodes.fits(&node(&[])).is_ok(), equal_nodes.is_spent())
        };
        assert_eq!(call(), (25, false, true), "those before have taken all moves");
        assert_eq!(call(), (25, true, false));
        assert_eq!(call(), (25, true, false), "and all of it is known");
    }
}
